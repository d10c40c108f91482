"""Deadlines on code that does not look at a clock."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from simverify.symbolic import watchdog
from simverify.symbolic.watchdog import DeadlineExpired, Stopwatch, deadline, run_queue_seconds

TRACED = """
import sys, threading
from simverify.symbolic.watchdog import DeadlineExpired as Expired, deadline

def code():
    return "got past its first instruction"

def audit():
    with deadline(60):
        pass
    try:
        with deadline(0.05):
            while True:
                pass
    except Expired:
        print("expired")
    sys.settrace(lambda *_: None)
    print(code())

# No signals there, so another thread ends the code.
thread = threading.Thread(target=audit)
thread.start()
thread.join()
"""


def busy_in(module, seconds):
    """Compute for some seconds of processor time in a function of that module."""
    space = {"__name__": module, "clock": time.thread_time}
    code = "def compute(s):\n    end = clock() + s\n    while clock() < end:\n        pass\n"
    exec(code, space)
    space["compute"](seconds)


def expires(module, seconds, limit=0.05):
    try:
        with deadline(limit):
            busy_in(module, seconds)
    except DeadlineExpired:
        return True
    return False


def in_a_thread(function):
    """What a function returns in another thread, where deadlines know no signals."""
    returned = []
    thread = threading.Thread(target=lambda: returned.append(function()))
    thread.start()
    thread.join()
    return returned[0]


@pytest.mark.parametrize("where", [lambda f: f(), in_a_thread], ids=["signal", "thread"])
def test_a_library_that_compiles_is_not_broken_off(monkeypatch, where):
    assert where(lambda: expires("users.module", 0.3))
    assert not where(lambda: expires("numba.core.compiler", 0.3))
    monkeypatch.setattr(watchdog, "MAX_COMPILE_SECONDS", 0.1)
    assert where(lambda: expires("numba.core.compiler", 0.6))


def test_nothing_is_left_behind_that_stops_a_debugger():
    """CPython 3.11 looped for ever at the first traced call after a deadline was cleared."""
    run = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=60)
    assert run.stdout == "expired\ngot past its first instruction\n", run.stderr


def test_a_destructor_that_swallows_it_is_struck_again_without_a_word():
    class Slow:
        def __del__(self):
            while True:
                pass

    def code():
        Slow()
        while True:
            pass

    told = []
    before, sys.unraisablehook = sys.unraisablehook, told.append
    try:
        with pytest.raises(DeadlineExpired), deadline(0.05):
            code()
        assert told == []
        # What is not a deadline's is told as ever.
        with deadline(60):
            Broken()
    finally:
        sys.unraisablehook = before
    assert [unraisable.exc_type for unraisable in told] == [ZeroDivisionError]


class Broken:
    def __del__(self):
        1 / 0  # noqa: B018


@pytest.mark.parametrize(
    ("wall", "cpu", "waited", "counted"),
    [
        (2.0, 1.9, 0.0, 1.9),  # it ran
        (100.0, 2.0, 97.5, 2.0),  # it ran, on a machine that was busy otherwise
        (100.0, 0.1, 0.0, 100.0),  # it slept
        (100.0, 0.1, 60.0, 40.0),  # it slept, and then waited to be woken
        (100.0, 2.0, 110.0, 2.0),  # counted on another clock
    ],
)
def test_only_what_the_code_took_counts(monkeypatch, wall, cpu, waited, counted):
    clocks = {"monotonic": 5.0, "thread_time": 1.0, "kept_waiting": 3.0}
    monkeypatch.setattr(time, "monotonic", lambda: clocks["monotonic"])
    monkeypatch.setattr(time, "thread_time", lambda: clocks["thread_time"])
    monkeypatch.setattr(watchdog, "run_queue_seconds", lambda thread: clocks["kept_waiting"])
    watch = Stopwatch()
    clocks = {"monotonic": 5 + wall, "thread_time": 1 + cpu, "kept_waiting": 3 + waited}
    assert watch.seconds() == pytest.approx(counted)


def test_seconds_never_go_back(monkeypatch):
    """A wait is told late by Linux: what looked like seconds of the code was none of them."""
    now, waited = 5.0, 3.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "thread_time", lambda: 1.0)
    monkeypatch.setattr(watchdog, "run_queue_seconds", lambda thread: waited)
    watch = Stopwatch(sleeps=True)
    now = 6.0
    before = watch.seconds()
    now, waited = 6.1, 4.0
    assert watch.seconds() == before == 1.0
    now = 7.5
    assert watch.seconds() == pytest.approx(1.5)


def test_a_thread_that_sleeps_is_not_kept_waiting_for_long():
    own = threading.get_native_id()
    began, waited = time.monotonic(), run_queue_seconds(own)
    time.sleep(0.2)
    since = run_queue_seconds(own) - waited
    assert 0 <= since <= time.monotonic() - began  # read last: it may be kept waiting in between
    assert run_queue_seconds(2**40) == 0.0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no /proc/PID/schedstat")
def test_another_process_that_is_kept_waiting_is_asked_the_same():
    """One that spins beside as many others as there are processors gets none for some time."""
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(len(os.sched_getaffinity(0)) + 1)]
    try:
        ends = time.monotonic() + 60
        while not any(run_queue_seconds(each.pid, each.pid) > 0.01 for each in spinning):
            assert time.monotonic() < ends
            time.sleep(0.01)
    finally:
        for each in spinning:
            each.kill()
            each.wait()
    assert run_queue_seconds(spinning[0].pid, spinning[0].pid) == 0.0
