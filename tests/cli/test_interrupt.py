"""Ctrl-C at any moment: 130, one line, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from simverify.cli import interrupt
from simverify.cli.interrupt import Terminated, handle_sigterm

LONG = (
    "compare",
    "--gamma",
    "8",
    "--models",
    "toy",
    "--blocks",
    "4000000000",
    "--json",
    "run.json",
)
LINE = "simverify: interrupted; nothing was written"

# Python's own start cannot be guarded: the process says when it is over, and interrupts are.
CODE = """
import os
import simverify.cli
guard = simverify.cli.leave_on_interrupt
def guarded():
    guard()
    os.write(1, b"started")
simverify.cli.leave_on_interrupt = guarded
simverify.cli.main()
"""


@pytest.mark.parametrize("delay", [0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6])
@pytest.mark.thorough
def test_an_interrupt_at_any_moment(start, tmp_path, delay):
    process = start(*LONG, code=CODE)
    assert os.read(process.stdout.fileno(), 7) == b"started"
    time.sleep(0.02 + delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert err.splitlines()[-1] == LINE
    assert err.count(LINE) == 1
    assert os.listdir(tmp_path) == []


IMPORTING = """
import sys, types

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            import os, signal, time
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(600)
            except BaseException:
                pass  # as compiled code may do that loads others

sys.meta_path.insert(0, Slow())
from simverify.cli import main
main()
"""


def test_an_interrupt_that_an_import_would_swallow(start):
    process = start("verifiers", code=IMPORTING)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", f"{LINE}\n")


SWALLOWING = """
import simverify.cli
from simverify.cli import app

def deaf(*_, **__):
    import os, time
    word = b"started"
    while True:
        try:
            os.write(1, word)
            word = b""
            time.sleep(600)
        except BaseException:
            word = b"swallowed"

app.app = deaf
simverify.cli.main()
"""


def test_a_second_interrupt_ends_what_swallows_the_first(start):
    process = start(code=SWALLOWING)
    assert os.read(process.stdout.fileno(), 7) == b"started"
    process.send_signal(signal.SIGINT)
    # Two signals that are both still to be seen would be one.
    assert os.read(process.stdout.fileno(), 9) == b"swallowed"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", f"{LINE}\n")


IN_CALLBACK = """
import simverify.cli
from simverify.cli import app

def called(*_, **__):
    import ctypes, os, signal, time
    from simverify.cli.interrupt import handle_sigterm

    @ctypes.CFUNCTYPE(None)
    def callback():
        os.kill(os.getpid(), signal.{signal})
        time.sleep(0.001)

    with handle_sigterm():
        callback()
        callback()
        time.sleep(600)

app.app = called
simverify.cli.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_in_a_callback_of_compiled_code_is_not_lost(start, name):
    """Python ignores what such a callback raises; numba compiles with one."""
    process = start(code=IN_CALLBACK.replace("{signal}", name))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", f"{LINE}\n")


def test_other_exceptions_that_python_ignores_are_reported_as_before():
    seen = []
    hook = interrupt._retry_ignored(seen.append)
    hook(SimpleNamespace(exc_type=ValueError))
    assert [unraisable.exc_type for unraisable in seen] == [ValueError]


def test_an_interrupt_that_the_parent_had_ignored_stays_ignored(tmp_path):
    """As under nohup."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "verifiers"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    # Before that, nothing has asked whether it is ignored.
    assert os.read(process.stdout.fileno(), 7) == b"started"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "token" in out


@pytest.fixture
def deadly():
    """SIGTERM ends the process, as it does where nobody handles it; put back afterwards."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("deadly")
def test_a_termination_is_told_meanwhile_and_once():
    with handle_sigterm():
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a second one ends it
    with handle_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("deadly")
def test_who_handles_a_termination_goes_on_to():
    seen = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    with handle_sigterm():
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM] * 2


@pytest.mark.usefixtures("deadly")
def test_a_thread_cannot_be_told_of_a_termination():
    def handler():
        with handle_sigterm():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(handler).result() is signal.SIG_DFL


@pytest.mark.usefixtures("deadly")
def test_a_termination_during_an_import_ends_at_once(monkeypatch):
    def left():
        raise SystemExit(interrupt.INTERRUPT_EXIT_CODE)

    monkeypatch.setattr(interrupt, "_is_importing", lambda frame: frame is not None)
    monkeypatch.setattr(interrupt, "_exit_interrupted", left)
    with pytest.raises(SystemExit), handle_sigterm():
        signal.raise_signal(signal.SIGTERM)


def test_an_interrupt_that_comes_too_late_is_ignored():
    before = signal.getsignal(signal.SIGINT)
    try:
        interrupt.ignore_interrupts()
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("terminal", "begins"), [(False, LINE), (True, f"\r\x1b[2K\x1b[?25h{LINE}")]
)
def test_it_leaves_though_the_code_under_audit_replaced_the_exit(
    monkeypatch, capfd, terminal, begins
):
    """And gives the terminal its cursor back, which a line of progress hides."""
    left = []
    monkeypatch.setattr(os, "_exit", lambda code: left.append("replaced"))
    monkeypatch.setattr(interrupt, "_exit", left.append)
    monkeypatch.setattr(os, "isatty", lambda number: terminal)
    interrupt._exit_interrupted()
    assert left == [130]
    assert capfd.readouterr().err == f"{begins}\n"
