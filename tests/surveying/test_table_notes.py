"""Notes of engines: in the row, on every face of the table, and in documents of before."""

import dataclasses
import json

import jsonschema
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.many_versions import LOSSY, RULE, TEXTS
from support.pages.html_page import check

import simverify
from simverify.cli import run
from simverify.engines import ENGINES, unloaded_engine
from simverify.engines.tiles import ON_CPU
from simverify.reports.formats.html import html_report
from simverify.reports.formats.junit import junit_report
from simverify.reports.formats.markdown import markdown_report
from simverify.reports.others.engines import marks, notes
from simverify.results.reading.document import document_text
from simverify.results.reading.schema import shipped_schema
from simverify.surveying.audited import Audited, Processes

NOTE = "the adapter hands it other dice, and a long way of saying so; see right-as-is for the dice"


@pytest.fixture
def noted(installed, monkeypatch, documents):
    """Engines with notes, whose audits are answered at once: one passes, one fails, one crashes."""
    for name in ("right", "lossy", "crash"):
        own = dataclasses.replace(unloaded_engine(name), note=NOTE if name != "lossy" else ON_CPU)
        monkeypatch.setitem(ENGINES, name, own)

    def audit(self, words, limit, **_):
        if words[0] == "crash":
            return Audited("crashed", None, "ended by signal SIGKILL", -9, 1.0)
        found = documents[RULE if TEXTS[words[0]] == RULE else LOSSY]
        return Audited("judged", found, "", {"PASS": 0, "FAIL": 1}[found.verdict], 2.4)

    monkeypatch.setattr(Processes, "audit", audit)
    return simverify.table(["right", "lossy", "crash"])


def test_a_row_has_the_note_of_its_engine_where_it_has_a_verdict(noted):
    assert [row.note for row in noted.rows] == [NOTE, ON_CPU, UNSET]


def test_a_note_of_where_there_is_a_gpu_is_that_of_the_engine_there(noted, monkeypatch):
    monkeypatch.setattr("simverify.engines.base._has_gpu", lambda: True)
    compiled = dataclasses.replace(ENGINES["lossy"], note="")
    monkeypatch.setitem(ENGINES, "lossy", dataclasses.replace(ENGINES["lossy"], on_gpu=compiled))
    assert [row.note for row in simverify.table(["right", "lossy"]).rows] == [NOTE, UNSET]


def test_the_terminal_numbers_notes_and_has_them_below_the_table(noted):
    lines = str(noted).splitlines()
    assert max(map(len, lines)) <= 80
    table = {line.split()[0]: line.split() for line in lines[1:4]}
    assert "PASS[1]" in table["right"]
    assert "FAIL[2]" in table["lossy"]
    assert "CRASHED" in table["crash"]
    text = " ".join(" ".join(lines).split())
    assert f"[1] right: {NOTE} [2] lossy: {ON_CPU}" in text


def test_a_table_without_notes_has_no_numbers(noted):
    bare = replace(noted, rows=tuple(replace(row, note=UNSET) for row in noted.rows))
    assert (marks(bare), notes(bare)) == ({}, [])
    assert "[1]" not in str(bare)
    assert "Notes" not in markdown_report(bare)
    assert "note" not in junit_report(bare)


def test_rows_of_one_note_share_its_number_and_are_not_all_named(noted):
    (right, *_) = noted.rows
    rows = tuple(replace(right, engine=f"engine{i}") for i in range(5))
    run = replace(noted, rows=rows, meta=replace(noted.meta, row_seconds=(1.0,) * 5))
    assert notes(run) == [f"[1] engine0, engine1, engine2 and 2 more: {NOTE}"]
    assert str(run).count("PASS[1]") == 5


def test_reports_have_the_notes(noted):
    page = " ".join(check(html_report(noted)).text.split())
    assert f"[1] right: {NOTE}" in page
    assert "PASS[1]" in page
    plain = markdown_report(noted).replace("\\", "")
    assert "| right | PASS[1] |" in plain
    assert f"- [2] lossy: {ON_CPU}" in plain
    suite = junit_report(noted)
    assert NOTE in suite
    assert f"note: {ON_CPU}" in suite


def test_a_note_is_no_markup_and_no_control_of_the_terminal(noted):
    right, *rest = noted.rows
    run = replace(noted, rows=(replace(right, note="<b>x</b>\x1b[2J\n| y"), *rest))
    assert "\x1b" not in str(run)
    assert "<b>x" not in html_report(run)
    assert "\n| y" not in markdown_report(run)


def test_the_run_file_has_the_note_and_one_of_before_is_read(noted, tmp_path):
    document = json.loads(document_text(noted))
    schema = jsonschema.Draft202012Validator(json.loads(shipped_schema()))
    schema.validate(document)
    assert [row.pop("note", None) for row in document["rows"]] == [NOTE, ON_CPU, None]
    schema.validate(document)
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert [row.note for row in simverify.load(tmp_path / "old.json").rows] == [UNSET] * 3
    document["rows"][0]["note"] = 3
    (tmp_path / "bad.json").write_text(json.dumps(document))
    assert run(["report", str(tmp_path / "bad.json")]) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-fast", "batch axis"),
        ("toyllm", "generator"),
        ("feifeibear-google", "ids one higher"),
        ("feifeibear-deepmind", "ids one higher"),
        ("sglang-dspark", "generator"),
    ],
)
def test_what_an_adapter_changes_is_said_and_the_code_as_it_is_is_named(name, says):
    note = ENGINES[name].note
    assert note.startswith("the adapter ")
    assert says in note
    unchanged = note.rpartition("see ")[2]
    assert unchanged.endswith("-as-is")
    assert ENGINES[unchanged].note == ""


def test_whoever_has_an_as_is_beside_it_says_what_is_changed():
    """A new pair of that kind has to have a note, by its file."""
    pairs = {one.loader.func.__module__ for one in ENGINES.values() if one.name.endswith("-as-is")}
    assert len(pairs) == 4
    for engine in ENGINES.values():
        if getattr(getattr(engine.loader, "func", None), "__module__", "") in pairs:
            assert bool(engine.note) != engine.name.endswith("-as-is"), engine.name


def test_a_draft_of_the_librarys_own_is_not_blamed_on_the_rule():
    assert "get_candidates" in ENGINES["hf-argmax-raw-q"].note
    assert "get_target_logits" in ENGINES["transformers-universal"].note
    assert ENGINES["transformers-generate"].note == ""
    assert ENGINES["transformers"].note == ""
