"""Sources that are more than definitions: programs, settings of libraries, tabs among spaces."""

import dataclasses

import pytest

from simverify.engines import get_engine
from simverify.engines.extract import function_parameters, load_pieces
from simverify.errors import SimverifyError

PROGRAM = """
import json
import json.nowhere
import json.decoder

json.decoder.strictly = json.nowhere


def rule(prompt):
    tokens = [len(prompt)]
    return json.dumps(tokens)


if __name__ == "__main__":
    prompt = tokens = rule(open("/no/such/file").read())
"""


def test_programs_and_settings_are_not_run(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    assert load_pieces(file, ["rule"]).rule("two") == "[3]"
    file.write_text(PROGRAM.replace('if __name__ == "__main__"', "if not json"))
    with pytest.raises(SimverifyError, match="No such file"):
        load_pieces(file, ["rule"])


def test_tabs_among_spaces_are_read_where_their_width_is_given(tmp_path):
    file = tmp_path / "mixed.py"
    file.write_text("def rule(p, q):\n    if p:\n\t\treturn q\n    return p\n")
    with pytest.raises(SimverifyError, match="no Python of this version: inconsistent"):
        load_pieces(file, ["rule"])
    with pytest.raises(SimverifyError, match="no Python of this version"):
        function_parameters(file, "rule")
    assert load_pieces(file, ["rule"], tab=4).rule(1, 2) == 2
    assert function_parameters(file, "rule", tab=4) == ("p", "q")


def test_checkouts_of_one_name_lie_under_their_owners(tmp_path):
    engine = get_engine("romsto")
    for folder in ("Speculative-Decoding", "romsto/Speculative-Decoding"):
        file = tmp_path / folder / "sampling" / "speculative_decoding.py"
        file.parent.mkdir(parents=True)
        file.touch()
        assert engine.find(tmp_path) == file
    other = dataclasses.replace(engine, repository="https://example.org/other/Name")
    assert other.find(tmp_path) is None
