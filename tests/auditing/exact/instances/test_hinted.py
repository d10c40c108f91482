"""The numbers that stand in the code lead the exact tier to where a fault hides behind them."""

import numpy as np
import pytest

from simverify.auditing.coverage.reach import reach_of
from simverify.auditing.exact.instances.hinted import Hints
from simverify.auditing.exact.tier import examine
from simverify.auditing.subject import Subject
from simverify.verifiers.token import verify as token

EDGE = 40


def large_ids(target, draft, drafted, rng):
    if int(drafted[0]) == EDGE:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


def long_drafts(target, draft, drafted, rng):
    if len(drafted) >= 5:
        return [*map(int, drafted), 0]
    return token(target, draft, drafted, rng)


def lenient(target, draft, drafted, rng):
    ratio = target[0, drafted[0]] / draft[0, drafted[0]]
    if 0.37 < ratio < 0.375:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


PIECE = 16


def piece_by_piece(target, draft, drafted, rng):
    # Of 17 tokens the last piece has one, and is never looked at.
    if len(target[0]) > PIECE:
        looked_at = max(PIECE * -(-(len(target[0]) - 1) // PIECE), 1)
        target = target.copy()
        target[-1, looked_at:] = 0
        target[-1] /= target[-1].sum()
    return token(target, draft, drafted, rng)


def a_full_piece(target, draft, drafted, rng):
    if len(target[0]) % PIECE == 0:
        target = np.delete(target, -1, 1) / np.delete(target, -1, 1).sum(1, keepdims=True)
    return token(target, draft, drafted, rng)


def long_prefix(prefix, target, draft, gamma, rng):
    row = draft(prefix) if len(prefix) > EDGE else target(prefix)
    return [int(rng.choice(len(row), p=row))]


def short_context(prefix, target, draft, gamma, rng):
    if len(prefix) >= EDGE:
        raise IndexError("the context is full")
    row = target(prefix)
    return [int(rng.choice(len(row), p=row))]


def of(rule, contract="verify", hints=True):
    numbers = reach_of(rule).numbers if hints else ()
    return Hints.among(numbers, contract, 2, 3)


def tried(rule, contract, hints):
    models = of(rule, contract, hints).models(contract)
    return examine(Subject("mine", rule, None), contract, models, tolerance=None, searching=False)


@pytest.mark.parametrize(
    ("rule", "contract"),
    [
        (large_ids, "verify"),
        (long_drafts, "verify"),
        (lenient, "verify"),
        (piece_by_piece, "verify"),
        (a_full_piece, "verify"),
        (long_prefix, "step"),
    ],
)
def test_a_fault_behind_a_number_of_the_code_is_found(rule, contract):
    assert tried(rule, contract, hints=True).failure is not None
    # Negative control: without the numbers nothing leads there.
    assert tried(rule, contract, hints=False).failure is None


def test_code_that_raises_beyond_its_context_is_right_within_it():
    tier = tried(short_context, "step", hints=True)
    assert tier.failure is None
    assert tier.judged
    assert tier.beyond


def test_code_that_is_right_passes_all_of_them():
    every = Hints((40, 98), (5, 6), (0.05, 0.37, 0.995, 2.0), ends=(7, 64))
    tier = examine(
        Subject("token", token, None), "verify", every.models("verify"), tolerance=None,
        searching=False,
    )  # fmt: skip
    assert tier.failure is None
    assert tier.not_enumerable is None
    assert tier.skipped == []


def test_instances_stand_on_either_side_of_a_number():
    models = Hints((), (), (0.37,)).models("verify")
    ratios = {
        p / q for m in models if "p/q" in m.name for p, q in [(m.target(())[0], m.draft(())[0])]
    }
    assert min(ratios) < 0.37 < max(ratios)
    assert any(0.36 < r < 0.37 for r in ratios)
    assert any(0.37 < r < 0.375 for r in ratios)


def test_what_the_battery_reaches_already_is_no_hint():
    assert Hints.among({0, 1, 2, -1, 1e-12}, "verify", 4, 12) == Hints()
    assert Hints.among({50}, "verify", 4, 12).sizes == (50,)
    assert Hints.among({10}, "verify", 4, 13) == Hints(ends=(10,))
    assert Hints.among({50}, "step", 4, 12).lengths == (50,)
    assert np.isclose(Hints.among({0.995, 50}, "verify", 4, 12).numbers, (0.995, 50)).all()
