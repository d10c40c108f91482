"""What is written from the code is whole; pictures are what is drawn now."""

import re

import pytest
from docs.examples import ROOT
from support.pages.scripts import load

from simverify.cli.app import app
from simverify.results.reading import generate_schema

generated = load(ROOT / "docs" / "extensions" / "generated.py")
pictures = load(ROOT / "docs" / "pictures.py")


def test_every_command_and_option_is_there():
    page = generated.commands()
    for name in app:
        if name.startswith("-"):
            continue
        section = page.split(f"## simverify {name}\n")[1].split("\n## ")[0]
        for argument in app[name].assemble_argument_collection():
            if argument.children or not argument.parameter.show:
                continue  # a class of options, each of which follows; an old name
            assert re.search(rf"{argument.names[0]}\b", section), (name, argument.names)


def test_every_field_of_the_result_file_is_there():
    page = generated.result_file()
    for name, struct in generate_schema()["$defs"].items():
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        for field in struct["properties"]:
            assert f"| `{field}` |" in section, (name, field)


def test_every_name_of_stats_is_there():
    from simverify import stats

    page = generated.statistics()
    named = {name for name in stats.__all__ if callable(getattr(stats, name))}
    assert set(re.findall(r"(?m)^\| `(\w+)`", page)) == named


def test_every_fault_is_there():
    from simverify.faults import CONTROLS, FAULTS

    page = generated.faults()
    assert set(re.findall(r"(?m)^\| `([^`]+)`", page)) == {*FAULTS, *CONTROLS}


def test_marks_are_filled_and_unknown_ones_refused():
    assert generated.expand("a\n<!-- generated: faults -->\nb") == f"a\n{generated.faults()}\nb"
    with pytest.raises(KeyError, match="nothing"):
        generated.expand("<!-- generated: nothing -->")


@pytest.mark.parametrize("file", pictures.PICTURES)
def test_a_picture_is_what_is_drawn(file):
    """To draw them anew: python docs/pictures.py."""
    assert (pictures.FOLDER / file).read_text(encoding="utf-8") == pictures.PICTURES[file]()
