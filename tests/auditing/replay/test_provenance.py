"""Where numbers come from is read off the file as it is now."""

from simverify.auditing.replay.provenance import sources
from simverify.auditing.replay.steps import Step


def test_a_file_that_is_edited_is_read_anew(tmp_path):
    """As in a notebook, where code is audited, mended and audited again."""
    file = tmp_path / "rule.py"

    def named():
        path = [Step(str(file), line, 0, None) for line in (2, 3, 4)]
        return [place.rpartition(":")[2] for place in sources(path, 2)]

    file.write_text("def f(p, q):\n    a = p + 1\n    b = q + 1\n    return a * 2\n")
    assert named() == ["2"]
    file.write_text("def f(p, q):\n    a = p + 1\n    b = q + 1\n    return b * 2\n")
    assert named() == ["3"]
