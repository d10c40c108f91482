"""What the law of each drafted block is asked of: which blocks, which rows, which budgets."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.comparison import compare_blocks
from simverify.symbolic import ExactLaw, OutOfTime
from simverify.symbolic.engine import Budget
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.watchdog import Stopwatch

P = {None: (3 / 4, 1 / 4), 0: (1 / 2, 1 / 2), 1: (1 / 4, 3 / 4)}
Q = {None: (1 / 4, 3 / 4), 0: (3 / 4, 1 / 4), 1: (1 / 2, 1 / 2)}


def pair(q=Q):
    """A target and a draft, whose row follows from the last token."""

    def rows(table):
        return lambda prefix: np.array(table[prefix[-1] if len(prefix) else None])

    return SimpleNamespace(target=rows(P), draft=rows(q))


class Enumerated:
    """Stands for an enumeration: runs the code once and notes with which budgets."""

    rng = None

    def __init__(self, stop_at=None, complete=True):
        self.source = SimpleNamespace(find=None)
        self.budgets, self.stop_at, self.complete = [], stop_at, complete

    def run(self, code, budget):
        self.budgets.append((budget.paths, budget.seconds, budget.enough))
        if len(self.budgets) == self.stop_at:
            raise TooManyPaths(budget.paths)
        return ExactLaw({code(): 1.0}, 5, 0.0, 0.0, (), self.complete)


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """A stopwatch reads 1, 2, 3, ... seconds."""
    readings = itertools.count(1)
    monkeypatch.setattr(Stopwatch, "seconds", lambda self: next(readings))


def blocks_of(enumeration, model=None, gamma=2, **more):
    """Compare a rule that rejects all; returns what it was given as well."""
    seen = []

    def verify(target_probs, draft_probs, draft_tokens, rng):
        seen.append((target_probs.tolist(), draft_probs.tolist(), draft_tokens.tolist()))
        return [0]

    return compare_blocks(enumeration, verify, model or pair(), gamma, **more), seen


def test_every_block_that_the_draft_draws_gets_its_rows():
    certain = {None: (1.0, 0.0), 0: (1 / 4, 3 / 4), 1: (0.0, 1.0)}
    found, seen = blocks_of(Enumerated(), pair(q=certain), gamma=3)
    assert [block for *_, block in seen] == [[0, 0, 0], [0, 0, 1], [0, 1, 1]]
    for target, draft, block in seen:
        before = [None, *block]
        assert target == [list(P[x]) for x in before]
        assert draft == [list(certain[x]) for x in before[:3]]
    assert found.emitted.sum() == 1
    assert found.paths == 15


def test_budgets_are_for_all_blocks_together():
    some = Enumerated()
    blocks_of(some, budget=Budget(100, 10.0))
    assert some.budgets == [(100, 9, None), (95, 8, None), (90, 7, None), (85, 6, None)]


def test_without_a_limit_no_clock_is_read():
    some = Enumerated()
    blocks_of(some, budget=Budget(100))
    assert [seconds for _, seconds, _ in some.budgets] == [None] * 4


@pytest.mark.parametrize(("paths", "each"), [(100, 25), (102, 25), (4, 1), (3, 1)])
def test_where_paths_have_no_end_each_block_has_its_part(paths, each):
    some = Enumerated()
    blocks_of(some, budget=Budget(paths, None, 1e-6))
    assert some.budgets == [(each, None, 1e-6)] * 4


def test_time_ends_between_blocks():
    some = Enumerated()
    with pytest.raises(OutOfTime) as stopped:
        blocks_of(some, budget=Budget(100, 3.0))
    assert [seconds for _, seconds, _ in some.budgets] == [2, 1]
    assert (stopped.value.seconds, stopped.value.paths) == (4, 10)


def test_too_many_paths_are_told_by_the_budget_of_all_blocks():
    with pytest.raises(TooManyPaths) as stopped:
        blocks_of(Enumerated(stop_at=2), budget=Budget(100))
    assert stopped.value.budget == 100


def test_code_that_does_not_come_back_is_not_run_on_other_blocks():
    found, seen = blocks_of(Enumerated(complete=False))
    assert len(seen) == 1
    assert not found.complete


def test_the_tolerance_is_handed_on():
    """A rule that rejects all and draws 0 is off by 1/4 at once."""
    assert blocks_of(Enumerated(), gamma=1)[0].place.position == 0
    assert blocks_of(Enumerated(), gamma=1, tolerance=1 / 4)[0].place is None
