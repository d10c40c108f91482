"""What no instance of the battery reached is aimed at, by the numbers in the tests before it."""

import ast

import numpy as np
import pytest

from simverify.auditing import coverage
from simverify.auditing.coverage import (
    CoverageMonitor,
    branch_targets,
    find_reachable,
    monitor_coverage,
)
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.search import LiteralHints
from simverify.auditing.subject import Subject
from simverify.verifiers.token import verify as token

LIMIT = 60


class Bounds:
    def __init__(self):
        self.most = 33

    def verify(self, target, draft, drafted, rng):
        # The id stands in an attribute, and the number of drafts beside it.
        if len(drafted) == 1 and int(drafted[0]) == self.most and len(target[0]) == 44:
            return [int(drafted[0])]
        return token(target, draft, drafted, rng)


def solved(target, draft, drafted, rng):
    if 3 * int(drafted[0]) + 2 == LIMIT - 1:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


def narrow(target, draft, drafted, rng):
    p, q = target[0, drafted[0]], draft[0, drafted[0]]
    if 0.2795 < p < 0.281 and 0.618 < q < 0.6195:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


def nested(target, draft, drafted, rng):
    vocab = len(target[0])
    if vocab <= 50:
        return token(target, draft, drafted, rng)
    if vocab % 8 == 3:
        first = int(drafted[0])
        if first == 41:
            return [first]
    return token(target, draft, drafted, rng)


def long_and_rare(prefix, target, draft, gamma, rng):
    row = target(prefix)
    if len(prefix) > 20 and len(row) == 29:
        row = draft(prefix)
    return [int(rng.choice(len(row), p=row))]


def long_by_bits(prefix, target, draft, gamma, rng):
    """From 20 tokens on, which stands nowhere, a tenth of the rejections draw from the target."""
    p, q = target(prefix), draft(prefix)
    x = int(rng.choice(len(q), p=q))
    if rng.random() * q[x] < p[x]:
        return [x]
    rest = np.maximum(p - q, 0)
    if (len(prefix) >> 2) // 5 and rng.random() < 0.1:
        rest = p
    return [int(rng.choice(len(p), p=rest / rest.sum()))]


def one_block():
    model = instances_for("verify", 1, 2, 0)[0]
    rows = np.array([model.target(()), model.target((0,))])
    return rows, np.array([model.draft(())]), [0], np.random.default_rng(0)


def tried(rule, contract="verify", *, steered=True):
    reach = find_reachable(rule)
    hints = LiteralHints.among(reach.numbers, contract, 2, 3)
    models = instances_for(contract, 2, 3, 0) + hints.models(contract)
    watch = CoverageMonitor(reach.codes if steered else [], named=reach.named)
    with monitor_coverage(watch):
        tier = run_exact_tier(Subject("mine", rule, None), contract, models, tolerance=None)
    return tier, watch


@pytest.mark.parametrize(
    ("rule", "contract"),
    [
        (Bounds().verify, "verify"),
        (solved, "verify"),
        (narrow, "verify"),
        (nested, "verify"),
        (long_and_rare, "step"),
        (long_by_bits, "step"),
    ],
    ids=lambda x: getattr(x, "__qualname__", x),
)
@pytest.mark.thorough(by_day=2)
def test_a_fault_behind_several_numbers_is_found(rule, contract, monkeypatch):
    # Negative control: nothing but what is unreached leads there.
    tier, _ = tried(rule, contract, steered=False)
    assert tier.failure is None
    assert tier.not_enumerable is None
    # A smaller one need not be looked for.
    monkeypatch.setattr("simverify.auditing.exact_tier.smallest_failure", lambda *_, **__: None)
    tier, _ = tried(rule, contract)
    assert tier.failure is not None
    assert tier.failure.model.name.startswith("aimed")


BITS = {
    "x >> 3 == 5": {40, 47}, "x << 2 > 100": {25}, "x & 32": {32}, "x ^ 5 == 60": {57},
    "not x // 20": {20, 39}, "bool(x // 20 and y)": {20, 39}, "x >> 4 or y": {16, 31},
    "x == 7 << 3": {56}, "x == 96 >> 1": {48}, "x == 12 | 35": {47},
}  # fmt: skip


@pytest.mark.parametrize("test", BITS)
def test_bits_and_truth_are_solved(test):
    (statement,) = ast.parse(test).body
    assert coverage._ConstantEvaluator({}, None).led_to(statement.value) >= BITS[test]


def test_what_leads_to_an_outcome():
    """An equation is solved, names and attributes are numbers, and what indexes is none."""
    watch = CoverageMonitor(
        find_reachable(solved).codes, always=True, named=find_reachable(solved).named
    )
    watch.call(solved, *one_block())
    (aim,) = branch_targets(watch.instructions.values(), watch.named)
    assert aim.own == {2, 3, 19, LIMIT - 1, LIMIT, 1}
    rule = Bounds().verify
    watch = CoverageMonitor(
        find_reachable(rule).codes, always=True, named=find_reachable(rule).named
    )
    watch.call(rule, *one_block())
    assert {aim.own for aim in branch_targets(watch.instructions.values(), watch.named)} == {
        frozenset({33}), frozenset({1}), frozenset({44}), frozenset({1, 33, 44}),
    }  # fmt: skip


def guarded(target, draft, drafted, rng):
    if abs(target.sum() - len(target)) > 0.25 or len(target) != len(drafted) + 1:
        raise ValueError("rows that are none, which nothing leads to")
    return token(target, draft, drafted, rng)


@pytest.mark.thorough
def test_what_nothing_leads_to_costs_a_fifth_at_most():
    calls = {}
    for steered in (False, True):
        tier, watch = tried(guarded, steered=steered)
        assert tier.failure is None
        assert tier.not_enumerable is None
        calls[steered] = watch.calls
    assert branch_targets(watch.instructions.values(), watch.named)
    assert calls[False] < calls[True] < 1.2 * calls[False]


@pytest.mark.thorough
def test_what_only_rounding_leads_to_is_not_aimed_at():
    """A residual without mass: no number stands there but 0, which the battery is full of."""
    calls = [tried(token, steered=steered)[1].calls for steered in (False, True)]
    assert calls[0] == calls[1]


def test_raising_beyond_a_prefix_is_no_failure():
    """As for numbers that stand alone: it may be the longest context that code is made for."""

    def short(prefix, target, draft, gamma, rng):
        if len(prefix) > 20 and len(target(prefix)) == 29:
            raise IndexError("the context is full")
        row = target(prefix)
        return [int(rng.choice(len(row), p=row))]

    tier, watch = tried(short, "step")
    assert tier.failure is None
    assert branch_targets(watch.instructions.values(), watch.named) == []
