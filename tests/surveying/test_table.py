"""The table: a row for every engine whatever comes of it, one verdict, one exit code."""

import dataclasses
import json
import re

import jsonschema
import pytest
from msgspec.structs import replace
from support.many_versions import LOSSY, TEXTS
from support.pages.html_page import check

import simverify
from simverify import UsageError
from simverify.cli import run
from simverify.engines import ENGINES, unloaded_engine
from simverify.engines.base import locate_engine
from simverify.reports.engines import certificate_text, engine_deviation, reason_lines
from simverify.reports.formats import build_report, html_report, markdown_report
from simverify.results import Certificate, Finding, table_verdict
from simverify.results.reading import shipped_schema
from simverify.results.registry import verdict_complaints
from simverify.surveying.table import (
    AuditOutcome,
    AuditProcesses,
    audited_row,
    failure_lines,
    join_tables,
)


@pytest.fixture
def answered(installed, monkeypatch, documents):
    """Let audits be answered at once; returns the words of each."""
    asked = []
    states = {
        "broken": AuditOutcome("not loaded", None, f"{installed}/broken.py fails to load", 4, 1.0),
        "crash": AuditOutcome("crashed", None, "ended by signal SIGKILL", -9, 1.0),
        "hang": AuditOutcome("out of time", None, "not done within 9 s", None, 9.0),
    }

    def audit(self, words, limit, **_):
        asked.append(list(words))
        name = words[0]
        if name in states:
            return states[name]
        found = documents[TEXTS[name]]
        return AuditOutcome("judged", found, "", {"PASS": 0, "FAIL": 1}[found.verdict], 2.4)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    monkeypatch.setattr(AuditProcesses, "said_by", lambda *_: (None, None, ""))
    return asked


def rows(run):
    return {row.engine: row for row in run.rows}


def test_every_engine_has_a_row_whatever_comes_of_it(answered):
    run = simverify.table(list(TEXTS))
    found = rows(run)
    states = {name: row.verdict or row.state for name, row in found.items()}
    assert states == {
        "right": "PASS", "lossy": "FAIL", "broken": "not loaded", "crash": "crashed",
        "hang": "out of time",
    }  # fmt: skip
    assert list(found) == list(TEXTS)
    assert found["right"].version == "1.2"
    assert found["right"].max_abs_deviation < 1e-9
    assert 0 < found["right"].least.share <= 1
    assert found["lossy"].least is None
    assert found["lossy"].counterexample.tv > 0.01
    assert found["lossy"].localisation.stage == "residual"
    assert found["lossy"].localisation.lines == found["lossy"].lines
    assert found["broken"].reason == "broken.py fails to load"
    assert found["crash"].exit_code == -9


@pytest.mark.parametrize(
    ("names", "verdict", "code"),
    [
        (["right"], "PASS", 0),
        (["right", "hang"], "INCONCLUSIVE", 3),
        (["right", "hang", "broken"], "INCONCLUSIVE", 4),
        (["right", "crash"], "INCONCLUSIVE", 4),
        (["right", "lossy", "broken", "crash", "hang"], "FAIL", 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst(answered, names, verdict, code):
    """A fault first, then what was not judged at all; only a table of PASSes exits with 0."""
    assert run(["table", "--engines", ",".join(names), "--quiet"]) == code
    assert simverify.table(names).verdict == verdict


def test_what_is_absent_counts_only_where_it_was_named(answered, monkeypatch):
    monkeypatch.setattr("simverify.surveying.table.engine_names", lambda: ["right", "lmdeploy"])
    run = simverify.table()
    assert (rows(run)["lmdeploy"].state, run.verdict, run.exit_code) == ("absent", "PASS", 0)
    assert "1 not here: lmdeploy" in str(run)
    named = simverify.table("right,lmdeploy")
    assert rows(named)["lmdeploy"].state == "not loaded"
    assert (named.verdict, named.exit_code) == ("INCONCLUSIVE", 4)


def test_a_table_of_nothing_is_no_pass(answered, monkeypatch):
    monkeypatch.setattr("simverify.surveying.table.engine_names", lambda: ["lmdeploy"])
    with pytest.raises(UsageError, match="no engine is installed, or lies under"):
        simverify.table()
    assert table_verdict(()) == "INCONCLUSIVE"


def test_sizes_are_the_engines_own_at_most(answered, monkeypatch):
    small = dataclasses.replace(unloaded_engine("right"), gamma=2)
    monkeypatch.setitem(ENGINES, "right", small)
    simverify.table(["right"])
    simverify.table(["right"], gamma=1, vocab=3)
    simverify.table(["right"], gamma=4)
    told = [dict(zip(words[1::2], words[2::2], strict=True)) for words in answered]
    assert [(x.get("--gamma"), x.get("--vocab")) for x in told] == [
        ("2", None), ("1", "3"), ("2", None)
    ]  # fmt: skip


def test_a_folder_of_checkouts_comes_before_what_is_installed(answered, tmp_path):
    (tmp_path / "checkouts" / "right.py").parent.mkdir()
    (tmp_path / "checkouts" / "right.py").mkdir()
    with pytest.raises(UsageError, match="does not exist: name a checkout"):
        simverify.table(["right"], engine_path="nowhere")
    simverify.table(["right"], engine_path=["checkouts"])
    assert "--engine-path" not in answered[-1]


def test_lines_that_an_audit_names_are_shown(answered, documents, installed):
    """The line that decides, from the checkout's top on; the place in the output beside it."""
    run = simverify.table(["lossy"])
    (line,) = rows(run)["lossy"].lines
    assert f"line: {line}" in str(run)
    assert line in check(html_report(run)).text
    assert "It deviates first at output token 1" in str(run)

    class Localised:
        findings = ()
        localisation = type("Of", (), {"lines": (f"{installed}/lossy.py:11",)})()

    place = locate_engine(unloaded_engine("lossy"), [])
    assert failure_lines(Localised, place.top) == ("lossy.py:11",)


def test_code_that_raises_is_named_by_the_line_that_raised(answered, documents, installed):
    """No law, so no line that decides; a line that decides goes before those of findings."""
    law = documents[LOSSY]
    where = f"{installed}/lossy.py:9"
    raised = Finding(kind="probe", text=f"probe output: raised KeyError: 1 ({where})", line=where)
    findings = (raised, replace(raised, text="again"), replace(raised, line=f"{installed}/x.py:2"))
    fails = replace(law, localisation=None, findings=(*findings, *law.findings))
    place = locate_engine(unloaded_engine("lossy"), [])
    assert failure_lines(fails, place.top) == ("lossy.py:9", "x.py:2")
    decided = replace(fails, localisation=law.localisation)
    assert failure_lines(decided, place.top) == failure_lines(law, place.top) != ()
    seed = Finding("contract", "constant-seed: 42 inside", f"{installed}/s.py:7", "constant-seed")
    seeded = replace(decided, findings=(*findings, seed))
    assert failure_lines(seeded, place.top) == ("s.py:7", *failure_lines(law, place.top))
    row = audited_row(unloaded_engine("lossy"), place, AuditOutcome("judged", fails, "", 1, 1.0))
    assert row.lines == ("lossy.py:9", "x.py:2")
    assert (row.findings[0].line, row.findings[-1].line) == ("lossy.py:9", None)
    assert "line: lossy.py:9" in " ".join(reason_lines(row))


def test_a_line_that_decides_more_than_the_token_is_told_so(answered):
    """What was drawn before is named where nothing is drawn for the token itself."""
    (row,) = simverify.table(["lossy"]).rows
    weak = replace(row, localisation=replace(row.localisation, alone=False))
    assert not any("alone" in line for line in reason_lines(row))
    assert "this one decides the output up to it" in " ".join(reason_lines(weak))


def test_it_is_shown_saved_and_reported(answered, tmp_path, capsys):
    code = run(
        ["table", "--engines", ",".join(TEXTS), "--quiet", "--report", "all", "--audits", "kept"]
    )
    out = capsys.readouterr().out
    assert code == 1
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "E[tau]" in out
    document = json.loads((tmp_path / "all" / "run.json").read_text())
    jsonschema.Draft202012Validator(json.loads(shipped_schema())).validate(document)
    again = simverify.load(tmp_path / "all" / "run.json")
    assert str(again) == out.rstrip("\n")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"right.json", "lossy.json"}
    assert simverify.load(tmp_path / "kept" / "lossy.json").verdict == "FAIL"
    text = " ".join(check(html_report(again)).text.split())
    for row in again.rows:
        assert row.engine in text
        assert (row.sha256 or "")[:16] in text
    assert "lossy does not emit the target's distribution" in text
    outcomes = [case.outcome for case in build_report(again).cases]
    assert outcomes == ["passed", "failed", *["inconclusive"] * 3]
    assert "| lossy | FAIL |" in markdown_report(again)
    assert "| where |" in markdown_report(again)
    assert str(tmp_path) not in (tmp_path / "all" / "run.json").read_text()


def test_a_sampled_tier_shows_its_bound_and_no_other_number(answered):
    """What the exact tier saw before it gave up is no answer."""
    (row,) = simverify.table(["right"]).rows
    sampled = replace(row, tier="sampled", certificate=None)
    assert (engine_deviation(row), engine_deviation(sampled)) == ("2.2e-16", "")
    bound = Certificate(bound=0.0123, delta=1e-3, method="plug-in", assumption=None)
    assert engine_deviation(replace(sampled, certificate=bound)) == "<=0.012"


def test_every_pass_says_its_certificate(answered):
    run = simverify.table(["right", "lossy"])
    right, lossy = run.rows
    words = certificate_text(right)
    assert re.fullmatch(
        r"every path, [\d,]+ on \d+ instances?: off by 2\.2e-16 at most, tolerance 1e-09", words
    )
    assert certificate_text(lossy) == ""
    assert words in markdown_report(run)
    assert words in " ".join(check(html_report(run)).text.split())
    bound = Certificate(bound=0.0123, delta=1e-3, method="plug-in", assumption=None)
    sampled = replace(right, tier="sampled", certificate=bound)
    assert certificate_text(sampled) == (
        "mean one-token TV at most 0.0123, but for a probability of 0.001 (plug-in)"
    )
    assert list(verdict_complaints(replace(run, rows=(sampled, lossy)))) == []
    for wrong in (
        replace(sampled, certificate=None),
        replace(right, tier=None),
        replace(right, instances=0),
    ):
        assert list(verdict_complaints(replace(run, rows=(wrong, lossy)))) != []


def test_no_row_of_a_long_table_is_left_out(answered):
    run = simverify.table(["right"])
    rows = tuple(replace(run.rows[0], engine=f"engine{i}") for i in range(68))
    meta = replace(run.meta, row_seconds=(1.0,) * len(rows))
    text = markdown_report(replace(run, rows=rows, meta=meta))
    assert all(f"| engine{i} |" in text for i in range(68))
    assert "more stand" not in text


def test_a_verdict_that_its_rows_do_not_give_is_refused(answered):
    run = simverify.table(["right", "lossy", "hang"])
    assert list(verdict_complaints(run)) == []
    right, lossy, hang = run.rows
    for wrong in (
        replace(run, verdict="PASS"),
        replace(run, rows=(right, replace(lossy, verdict="PASS"), hang), verdict="INCONCLUSIVE"),
        replace(run, rows=(right, lossy, replace(hang, verdict="PASS"))),
        replace(run, rows=(right, replace(lossy, findings=()), hang)),
    ):
        assert list(verdict_complaints(wrong)) != []


def test_tables_of_several_environments_are_one(answered, monkeypatch):
    monkeypatch.setattr("simverify.surveying.table.engine_names", lambda: ["right", "lmdeploy"])
    first = simverify.table()
    monkeypatch.setattr("simverify.surveying.table.engine_names", lambda: ["lossy", "lmdeploy"])
    both = join_tables([first, simverify.table()])
    assert [row.engine for row in both.rows] == ["right", "lmdeploy", "lossy"]
    assert (both.verdict, both.meta.row_seconds) == ("FAIL", (2.4, None, 2.4))
    assert list(verdict_complaints(both)) == []


def test_the_list_says_what_each_would_need(answered, capsys):
    assert run(["table", "--list", "--engines", "right,lmdeploy"]) == 0
    out = capsys.readouterr().out
    assert "right\n  here: 1.2 installed" in out
    assert (
        "lmdeploy\n  not here\n  get it by: pip install torch && pip install --no-deps 'lmd" in out
    )
    assert answered == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--engines", "rigth"], "did you mean 'right'"),
        (["--engines", "right,right"], "engine 'right' is named twice"),
        (["--engines", "right,"], "--engines is 'right,': expected names"),
        (
            ["--list", "--json", "x"],
            "--list only says what is here, and audits nothing: leave --json",
        ),
        (["--list", "--report", "x"], "--list only says what is here, and audits nothing: leave"),
        (["--list", "--audits", "x"], "--list only says what is here, and audits nothing: leave"),
        (["--jobs", "0"], "jobs is 0: expected 1 to 256"),
        (["--gamma", "9"], "gamma is 9: expected 1 to 4"),
        (["--limit", "0"], "limit is 0"),
    ],
)
def test_bad_input_is_one_line(answered, capsys, words, complaint):
    assert run(["table", *words]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
