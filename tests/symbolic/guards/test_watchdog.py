"""Deadlines on code that does not look at a clock."""

import subprocess
import sys

import pytest

from simverify.symbolic.guards.watchdog import Expired, deadline

TRACED = """
import sys, threading
from simverify.symbolic.guards.watchdog import Expired, deadline

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
        with pytest.raises(Expired), deadline(0.05):
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
