"""Notes of engines: in the row, on every face of the table, and in documents of before."""

import dataclasses
import json
import os
import select
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.many_versions import BROKEN, HANG, LOSSY, RULE, SMALL, TEXTS, install
from support.pages.html_page import check
from support.pages.report_runs import FOLDER
from support.waiting import PATIENCE, wait_for

import simverify
from simverify.cli import run
from simverify.engines import ENGINES, unloaded_engine
from simverify.reports.engines import engine_notes, note_marks
from simverify.reports.formats import html_report, junit_report, markdown_report
from simverify.results.reading import document_text, shipped_schema
from simverify.surveying.table import AuditOutcome, AuditProcesses
from simverify.triton_cpu import CPU_NOTE

# An audit in a process of its own: a verdict, or why there is none, and nothing left running.


FAILED = FOLDER / "faulty-block" / "run.json"


@pytest.fixture
def interpreter(tmp_path):
    """Make a stand-in for Python: a shell script, which has the run file's name in ``$file``."""

    def make(script):
        path = tmp_path / "python"
        last = "for word; do file=$word; done\n"
        path.write_text(f"#!/bin/sh\n{last}{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def audit(python, limit=PATIENCE, **options):
    with AuditProcesses() as processes:
        return processes.audit(["some-engine"], limit, python=python, **options)


def test_a_document_is_read_with_its_exit_code(interpreter):
    audited = audit(interpreter(f"cp {FAILED} $file; exit 1"))
    assert (audited.state, audited.exit_code) == ("judged", 1)
    assert audited.run.verdict == "FAIL"


def test_what_failed_is_repeated_by_a_command_that_needs_no_file_that_is_gone(interpreter):
    kept = f'sed "s#reports/.*/run.json#$file#" {FAILED} > $file'
    audited = audit(interpreter(f"{kept}; exit 1"))
    assert audited.run.reproduce == "simverify audit some-engine"
    assert audit(interpreter(f"cp {FAILED} $file; exit 1")).run.reproduce != audited.run.reproduce


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        ("echo noise >&2; echo 'simverify: no such engine' >&2; exit 2",
         "not loaded", "no such engine"),
        ("echo 'simverify: it needs a GPU' >&2; exit 4", "not loaded", "it needs a GPU"),
        ("exit 2", "not loaded", "it does not say why"),
        ("echo 'simverify: internal error: x' >&2; exit 4", "crashed", "internal error: x"),
        ("kill -SEGV $$", "crashed", "ended by signal SIGSEGV"),
        ("echo 'last words' >&2; exit 77", "crashed", "exit code 77: last words"),
        ("exit 0", "crashed", "exit code 0"),
        (f"cp {FAILED} $file; exit 0", "crashed", "exit code 0 with the verdict FAIL"),
        ("echo '{}' > $file; exit 0", "crashed", "run.json is not a result document"),
    ],
)  # fmt: skip
def test_what_gives_no_verdict_says_why(interpreter, script, state, reason):
    """A PASS above all: an exit code without a document, or with another one, is none."""
    audited = audit(interpreter(script))
    assert (audited.state, audited.run) == (state, None)
    assert reason in audited.reason
    assert "\n" not in audited.reason


def test_the_limit_ends_it_and_all_that_it_started(interpreter, tmp_path, monkeypatch):
    """Its time is over once it has started another; a pipe ends with the last who writes to it."""
    os.mkfifo(tmp_path / "pipe")
    here, wait, began = [], subprocess.Popen.wait, time.monotonic()
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def waited(process, timeout=None):
        if timeout == 0.3:
            assert select.select([pipe], [], [], PATIENCE)[0]
            here.append(os.read(pipe, 100))
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", waited)
    python = interpreter(f"exec 3> {tmp_path}/pipe; (echo here >&3; sleep 600) & sleep 600")
    audited = audit(python, limit=0.3)
    assert here == [b"here\n"]
    assert audited.state == "out of time"
    assert "not done within 0.3 s" in audited.reason
    assert select.select([pipe], [], [], PATIENCE)[0]
    assert os.read(pipe, 100) == b""
    os.close(pipe)
    assert time.monotonic() - began < 600  # neither slept to its end


def test_closing_ends_what_runs_and_starts_no_more(interpreter):
    python = interpreter("sleep 60")
    processes = AuditProcesses()
    done = []
    thread = threading.Thread(target=lambda: done.append(processes.audit([], 50, python=python)))
    thread.start()
    wait_for(lambda: processes._running)
    processes.close()
    thread.join(PATIENCE)
    assert done[0].exit_code == -9
    with pytest.raises(KeyboardInterrupt):
        processes.audit([], 50, python=python)


def test_no_setting_of_the_caller_reaches_it(interpreter, monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    (tmp_path / "pyproject.toml").write_text("[tool.simverify.audit]\ngamma = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMVERIFY_AUDIT_GAMMA", "1")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    python = interpreter(f"(pwd; cat pyproject.toml; env) > {seen}; exit 2")
    audit(python, python_path=[tmp_path])
    lines = seen.read_text().splitlines()
    assert not [line for line in lines if line.startswith(("SIMVERIFY_AUDIT", "GITHUB_STEP"))]
    assert f"PYTHONPATH={tmp_path}{os.pathsep}/theirs" in lines
    assert lines[0] != str(tmp_path)
    assert "gamma" not in "".join(lines[:3])


def test_a_real_audit(tmp_path):
    (tmp_path / "rule.py").write_text(RULE)
    words = [f"{tmp_path}/rule.py:no_such", "--gamma", "1"]
    with AuditProcesses() as processes:
        audited = processes.audit(words, PATIENCE, python=sys.executable)
    assert (audited.state, audited.exit_code) == ("not loaded", 2)
    assert "'no_such': choose from verify" in audited.reason


NOTE = "the adapter hands it other dice, and a long way of saying so; see right-as-is for the dice"


@pytest.fixture
def noted(installed, monkeypatch, documents):
    """Engines with notes, whose audits are answered at once: one passes, one fails, one crashes."""
    for name in ("right", "lossy", "crash"):
        own = dataclasses.replace(unloaded_engine(name), note=NOTE if name != "lossy" else CPU_NOTE)
        monkeypatch.setitem(ENGINES, name, own)

    def audit(self, words, limit, **_):
        if words[0] == "crash":
            return AuditOutcome("crashed", None, "ended by signal SIGKILL", -9, 1.0)
        found = documents[RULE if TEXTS[words[0]] == RULE else LOSSY]
        return AuditOutcome("judged", found, "", {"PASS": 0, "FAIL": 1}[found.verdict], 2.4)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    return simverify.table(["right", "lossy", "crash"])


def test_a_row_has_the_note_of_its_engine_where_it_has_a_verdict(noted):
    assert [row.note for row in noted.rows] == [NOTE, CPU_NOTE, UNSET]


def test_a_note_of_where_there_is_a_gpu_is_that_of_the_engine_there(noted, monkeypatch):
    monkeypatch.setattr("simverify.engines.base._has_gpu", lambda: True)
    compiled = dataclasses.replace(ENGINES["lossy"], note="")
    monkeypatch.setitem(ENGINES, "lossy", dataclasses.replace(ENGINES["lossy"], on_gpu=compiled))
    assert [row.note for row in simverify.table(["right", "lossy"]).rows] == [NOTE, UNSET]


def test_the_terminal_numbers_notes_and_has_them_below_the_table(noted):
    lines = str(noted).splitlines()
    assert max(map(len, lines)) <= 80
    table = {line.split()[0]: line.split() for line in lines[2:5]}
    assert "PASS[1]" in table["right"]
    assert "FAIL[2]" in table["lossy"]
    assert "CRASHED" in table["crash"]
    text = " ".join(" ".join(lines).split())
    assert f"Notes: [1] right: {NOTE} [2] lossy: {CPU_NOTE}" in text


def test_a_table_without_notes_has_no_numbers(noted):
    bare = replace(noted, rows=tuple(replace(row, note=UNSET) for row in noted.rows))
    assert (note_marks(bare), engine_notes(bare)) == ({}, [])
    assert "[1]" not in str(bare)
    assert "Notes" not in markdown_report(bare)
    assert "note" not in junit_report(bare)


def test_rows_of_one_note_share_its_number_and_are_not_all_named(noted):
    (right, *_) = noted.rows
    rows = tuple(replace(right, engine=f"engine{i}") for i in range(5))
    run = replace(noted, rows=rows, meta=replace(noted.meta, row_seconds=(1.0,) * 5))
    assert engine_notes(run) == [f"[1] engine0, engine1, engine2 and 2 more: {NOTE}"]
    assert str(run).count("PASS[1]") == 5


def test_reports_have_the_notes(noted):
    page = " ".join(check(html_report(noted)).text.split())
    assert f"[1] right: {NOTE}" in page
    assert "PASS[1]" in page
    plain = markdown_report(noted).replace("\\", "")
    assert "| right | PASS[1] |" in plain
    assert f"- [2] lossy: {CPU_NOTE}" in plain
    suite = junit_report(noted)
    assert NOTE in suite
    assert f"note: {CPU_NOTE}" in suite


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
    assert [row.pop("note", None) for row in document["rows"]] == [NOTE, CPU_NOTE, None]
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
    """A new pair of that kind has to have a note, by its name."""
    unchanged = [name for name in ENGINES if name.endswith("-as-is")]
    assert len(unchanged) == 4
    for name in unchanged:
        stem = name.removesuffix("-as-is")
        beside = [other for other in ENGINES if other.startswith(stem) and other != name]
        assert beside
        assert ENGINES[name].note == ""
        assert all(ENGINES[other].note for other in beside)


def test_a_draft_of_the_librarys_own_is_not_blamed_on_the_rule():
    assert "get_candidates" in ENGINES["hf-argmax-raw-q"].note
    assert "get_target_logits" in ENGINES["transformers-universal"].note
    assert ENGINES["transformers-generate"].note == ""
    assert ENGINES["transformers"].note == ""


# A table whose audits are processes: what they come to, and that none outlives it.


def rows(run):
    return {row.engine: row for row in run.rows}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends processes with their parents")
@pytest.mark.thorough
def test_a_table_that_is_killed_takes_its_audits_along(installed, tmp_path):
    (installed / "hang.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n" + HANG
    )
    code = "from simverify.cli import main; main()"
    table = subprocess.Popen([sys.executable, "-c", code, "table", "--engines", "hang", "--quiet"])
    try:
        pid = wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        assert Path("/proc", pid).exists()
    finally:
        table.kill()
        table.wait()
    assert wait_for(lambda: not Path("/proc", pid).exists())


@pytest.mark.slow
def test_whole_audits_in_processes(installed, capsys):
    names = ["right", "lossy", "broken", "crash"]
    code = run(["table", "--engines", ",".join(names), *SMALL, "--json", "t.json"])
    assert code == 1
    found = rows(simverify.load("t.json"))
    said = {name: row.verdict or row.state for name, row in found.items()}
    assert said == {
        "right": "PASS",
        "lossy": "FAIL",
        "broken": "not loaded",
        "crash": said["crash"],
    }
    assert said["crash"] in ("not loaded", "crashed")
    assert "of 4: right: PASS" in capsys.readouterr().err
    late = simverify.table(["hang"], limit=3)
    assert rows(late)["hang"].state == "out of time"


SIZED = """
from simverify.engines import Engine

verify = Engine("sized", "sized", "", "rule", "verify", "exact", loader=None, gamma=1, vocab=3,
                note="on a guess")
"""


def test_sizes_and_note_of_an_engine_of_another_distribution_hold_too(
    monkeypatch, tmp_path, documents
):
    asked = []

    def audit(self, words, limit, **_):
        asked.append(words[1:5])
        return AuditOutcome("judged", documents[RULE], "", 0, 2.4)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    install(tmp_path, {"sized": SIZED, "plain": RULE, "broken": BROKEN})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = simverify.table(["sized", "plain", "broken"], jobs=1)
    assert [row.note for row in run.rows] == ["on a guess", UNSET, UNSET]
    assert asked == [["--gamma", "1", "--vocab", "3"], *[["--seed", "0"]] * 2]
    simverify.table(["sized"], vocab=2)
    assert asked[-1] == ["--gamma", "1", "--vocab", "2"]
