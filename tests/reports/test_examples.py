"""The committed examples are what the code makes: python docs/example_reports.py."""

import importlib.util
import math

import msgspec
import pytest
from support.levels import at_night
from support.pages.report_runs import FOLDER
from support.pages.scripts import load

from simverify.reports.present import write_reports
from simverify.results.reading import document_text, read_document

AGAIN = "make them again: python docs/example_reports.py"
made = load(FOLDER.parents[1] / "docs" / "example_reports.py")


SERVED = made.SERVED
"""Examples of served engines: numbers of a model differ between machines in their last digits."""

ENGINES = "engines"
"""The table of engines, made by ``python docs/engine_table.py``: what it needs is large."""


def test_every_example_is_committed():
    assert {path.name for path in FOLDER.iterdir()} == {*made.EXAMPLES, *SERVED, ENGINES}, AGAIN


@pytest.mark.parametrize("name", [*made.EXAMPLES, *SERVED, ENGINES])
def test_renderings_are_those_of_the_run_file(name, tmp_path):
    write_reports(read_document(FOLDER / name / "run.json"), tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / name / path.name).read_bytes(), AGAIN


def differences(new, old, place=""):
    """Places where two documents differ; numbers may by rounding of another machine."""
    if isinstance(new, dict) and isinstance(old, dict):
        for key in sorted(set(new) | set(old)):
            yield from differences(new.get(key), old.get(key), f"{place}.{key}")
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for i, pair in enumerate(zip(new, old, strict=True)):
            yield from differences(*pair, f"{place}[{i}]")
    elif isinstance(new, float) and isinstance(old, int | float):
        if new == pytest.approx(old, rel=1e-6, abs=1e-12):
            return
        # Near the mean of a sum the saddle-point formula takes 1/w from 1/u, both large: another
        # machine's last digits move a p-value near 1 by 1e-5.
        near = place.endswith(".log_pvalue") and abs(math.exp(new) - math.exp(old)) < 1e-4
        if not (near and math.exp(old) > 0.9):
            yield place
    elif new != old:
        yield place


def test_differences_are_seen():
    old = {"a": [1.0, {"b": "x"}], "c": None}
    assert list(differences({"a": [1.0 + 1e-9, {"b": "x"}], "c": None}, old)) == []
    assert list(differences({"a": [1.1, {"b": "y"}], "d": 1}, old)) == [".a[0]", ".a[1].b", ".d"]
    assert list(differences({"a": [1.0], "c": None}, old)) == [".a"]


def test_a_pvalue_near_one_may_move_and_no_other():
    tests = [{"log_pvalue": value} for value in (-0.0162, -1.6)]
    for moved, seen in ((1e-5, [".log_pvalue"]), (1e-3, [".log_pvalue"] * 2)):
        new = [{"log_pvalue": test["log_pvalue"] + moved} for test in tests]
        pairs = zip(new, tests, strict=True)
        assert [place for pair in pairs for place in differences(*pair)] == seen


@pytest.mark.parametrize("name", at_night(made.EXAMPLES, but=("draft-trees", "faulty-block")))
@pytest.mark.thorough
def test_a_run_of_the_same_code_gives_the_same_document(name):
    if name == "transformers" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    new = msgspec.to_builtins(made.fixed(made.EXAMPLES[name]()))
    old = msgspec.to_builtins(read_document(FOLDER / name / "run.json"))
    new, old = (msgspec.json.decode(msgspec.json.encode(run)) for run in (new, old))
    assert list(differences(new, old)) == [], AGAIN


def told(run):
    """What does not depend on the last digits of a model's numbers."""
    found = {"verdict": run.verdict, "reproduce": run.reproduce}
    if hasattr(run, "cells"):
        found["cells"] = [(cell.name, cell.outcome) for cell in run.cells]
    if hasattr(run, "counts"):
        found["counts"] = [(one.kind, one.requests) for one in run.counts]
    return found


@pytest.mark.parametrize("name", at_night(SERVED, but=("two-engines",)))
def test_examples_of_served_engines_say_the_same(name):
    if name != "two-engines":
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    assert told(SERVED[name]()) == told(read_document(FOLDER / name / "run.json"))


def test_the_command_writes_where_it_is_told(tmp_path, monkeypatch, capsys):
    run = read_document(FOLDER / "faulty-block" / "run.json")
    monkeypatch.setattr(made, "EXAMPLES", {"one": lambda: run})
    monkeypatch.setattr(made, "SERVED", {})
    monkeypatch.setattr("sys.argv", ["examples", str(tmp_path)])
    made.main()
    assert (tmp_path / "one" / "run.json").read_text() == document_text(run)
    assert capsys.readouterr().out == f"{tmp_path / 'one'}\n"
