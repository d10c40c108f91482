"""An audit in a process of its own: a verdict, or why there is none, and nothing left running."""

import os
import select
import stat
import subprocess
import sys
import threading
import time

import pytest
from support.many_versions import RULE
from support.pages.report_runs import FOLDER
from support.waiting import PATIENCE, wait_for

from simverify.surveying.audited import Processes

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
    with Processes() as processes:
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
    processes = Processes()
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
    with Processes() as processes:
        audited = processes.audit(words, PATIENCE, python=sys.executable)
    assert (audited.state, audited.exit_code) == ("not loaded", 2)
    assert "'no_such': choose from verify" in audited.reason
