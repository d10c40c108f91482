"""Code that ends, interrupts or forks its process: found in that process, which goes on."""

import ctypes
import os
import signal
import sys
import threading

import pytest
from support.rules import token

from simverify.auditing.coverage import call_monitored
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.symbolic.watchdog import UserInterrupt, contain_process, is_user_interrupt

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=1, vocab=3, seconds=2)
_exit = os._exit
raise_in_c = ctypes.CDLL(None)["raise"]  # past the functions that contained() replaces


ENDING = {
    "sys.exit": lambda: sys.exit(0),
    "os._exit": lambda: os._exit(0),
    "os.abort": lambda: os.abort(),
    "os.kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "signal.raise_signal": lambda: signal.raise_signal(signal.SIGTERM),
    "KeyboardInterrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
    "MemoryError": lambda: (_ for _ in ()).throw(MemoryError),
    "RecursionError": lambda: recursion(),
}


def recursion():
    return recursion()


@pytest.mark.parametrize("name", ENDING)
@pytest.mark.thorough
def test_what_ends_a_process_in_python_is_a_finding_in_the_same_process(name):
    def rule(p, q, x, rng):
        ENDING[name]()

    run = audit(Subject("mine", rule, None), "verify", SMALL)
    assert run.verdict == "FAIL"
    assert run.findings[0].kind in ("probe", "contract")


def test_the_users_interrupt_is_told_from_the_codes():
    assert is_user_interrupt(KeyboardInterrupt())
    with contain_process():
        assert not is_user_interrupt(KeyboardInterrupt())
        assert is_user_interrupt(UserInterrupt())
        with contain_process(), pytest.raises(UserInterrupt):
            raise_in_c(signal.SIGINT)
        assert not is_user_interrupt(KeyboardInterrupt())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def press(p, q, x, rng):
        raise_in_c(signal.SIGINT)
        return token(p, q, x, rng)

    with pytest.raises(UserInterrupt):
        audit(Subject("mine", press, None), "verify", SMALL)


def test_other_processes_may_be_sent_signals():
    with contain_process():
        os.kill(os.getpid(), 0)
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_forked_processes_may_end():
    with contain_process(), contain_process():
        child = os.fork()
        if child == 0:
            try:
                os._exit(3)
            finally:
                _exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        with pytest.raises(SystemExit):
            os._exit(3)


@pytest.mark.parametrize("how", [lambda: None, lambda: sys.exit(0), lambda: [].pop()])
def test_a_forked_process_does_not_come_back(how):
    own = os.getpid()

    def rule():
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return how()

    try:
        assert call_monitored(rule) == 1
    finally:
        if os.getpid() != own:
            _exit(2)


def test_interrupts_in_other_threads_are_the_codes():
    found = []

    def look():
        with contain_process():
            found.append(is_user_interrupt(KeyboardInterrupt()))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]


def test_prints_are_counted_and_not_shown(capfd):
    def loud(p, q, x, rng):
        print("first line\nmore")
        sys.stdout.buffer.write(b"bytes")
        return token(p, q, x, rng)

    run = audit(Subject("mine", loud, None), "verify", SMALL)
    assert run.verdict == "PASS"
    (note,) = [note for note in run.notes if note.startswith("prints")]
    assert "they begin with 'first line'" in note
    assert capfd.readouterr().out == ""
