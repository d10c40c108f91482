"""Budgets of paths and seconds, and code that never ends."""

import threading
import time

import pytest
from support.one_block import endless, law_of

from simverify.auditing.exact.generations.enumerate import (
    OutOfTime,
    TooManyPaths,
)
from simverify.symbolic.enumeration import engine
from simverify.symbolic.guards.watchdog import Expired, Stopwatch, deadline


@pytest.mark.parametrize("in_thread", [False, True])
def test_an_endless_loop_is_a_finding(in_thread, monkeypatch):
    monkeypatch.setattr(engine, "HANG_SECONDS", engine.HANG_SECONDS / 4)
    laws = []
    run = lambda: laws.append(law_of(endless, seconds=engine.HANG_SECONDS + 0.1))  # noqa: E731
    if in_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(10)
    else:
        run()
    assert laws[0].findings[0].kind == "hangs"
    assert not laws[0].complete


def test_a_limit_that_is_too_short_for_anyone_calls_nobody_a_hang():
    with pytest.raises(OutOfTime):
        law_of(endless, seconds=0.2)


def coin_flips(p, q, x, rng):
    return [sum(rng.random() < 0.5 for _ in range(30)) % 3]


def test_budgets_are_told_apart():
    with pytest.raises(TooManyPaths):
        law_of(coin_flips, max_paths=50)
    with pytest.raises(OutOfTime):
        law_of(coin_flips, max_paths=10**9, seconds=0.2)


def test_a_rejection_loop_runs_out_of_paths_and_is_not_called_endless():
    def rule(p, q, x, rng):
        while True:
            y = int(rng.integers(3))
            if rng.random() < p[0][y]:
                return [y]

    with pytest.raises(TooManyPaths):
        law_of(rule, max_paths=500)


def test_thin_branches_are_not_run_but_counted():
    def rule(p, q, x, rng):
        return [1 if rng.random() < 1e-13 else 0]

    law = law_of(rule)
    assert law.paths == 1
    assert law.pruned == pytest.approx(1e-13, rel=1e-3)
    assert law_of(rule, prune=0.0).probabilities[(1,)] == 1e-13


def test_a_limit_counts_the_codes_own_seconds():
    # As on a busy machine: a third of the wall clock is the code's.
    began, waits = time.thread_time(), 0.004

    def work():
        while True:
            ends = time.thread_time() + waits / 2
            while time.thread_time() < ends:
                pass
            time.sleep(waits)

    with pytest.raises(Expired), deadline(0.2):
        work()
    assert time.thread_time() - began > 0.15


@pytest.mark.parametrize(("wall", "cpu", "counted"), [(10.0, 1.0, 1.0), (10.0, 0.1, 10.0)])
def test_who_sleeps_is_timed_by_the_wall_clock(monkeypatch, wall, cpu, counted):
    monkeypatch.setattr(time, "monotonic", iter([100.0, 100.0 + wall]).__next__)
    monkeypatch.setattr(time, "thread_time", iter([5.0, 5.0 + cpu]).__next__)
    assert Stopwatch().seconds() == pytest.approx(counted)
