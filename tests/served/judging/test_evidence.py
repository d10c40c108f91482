"""The worst tokens in context, and the places at which a mean is off."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.served.evidence import (
    MAX_WORST_TOKENS,
    WorstTokens,
    deviation_by_position,
    mismatch_reason,
)
from simverify.served.requests import Request

# Values that are not of what was sampled are told apart from those of wrong weights.


V = 50


def law(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def drawn(rng, rows):
    return np.minimum((rows.cumsum(1) <= rng.random((len(rows), 1))).sum(1), V - 1)


def told(how, n, seed=0, off=0.25):
    """What is said of a server whose tokens are the target's, but for ``weights``."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, V))
    p, other = law(logits), law(logits + off * rng.normal(size=(n, V)))
    at = np.arange(n)
    tokens = drawn(rng, p)
    known = np.log(p[at, tokens])
    if how == "weights":
        tokens = drawn(rng, other)
        known = np.log(other[at, tokens])
    elif how == "draft":
        drafts = drawn(rng, other)
        kept = rng.random(n) < (p / other)[at, drafts]
        left = np.maximum(p - other, 0.0) + 1e-300
        rest = drawn(rng, left / left.sum(1, keepdims=True))
        bonus = at % 5 == 0
        tokens = np.where(bonus, tokens, np.where(kept, drafts, rest))
        known = np.log(np.where(kept & ~bonus, other[at, tokens], p[at, tokens]))
    elif how == "log10":
        known = known / np.log(10)
    elif how == "stale":
        known = np.log(np.roll(p, 1, axis=0)[at, tokens])
    ours = np.log(p[at, tokens])
    whose = at // 40
    return mismatch_reason(known, ours, ours, np.abs(known - ours), whose, 1e-9, ALPHA)


@pytest.mark.distribution
@pytest.mark.parametrize("n", [7, 40, 150, 1000])
def test_a_right_server_is_not_blamed_for_what_it_reports(n):
    for seed in range(40):
        for off in (0.25, 1.0):
            for how in ("draft", "log10", "stale"):
                assert told(how, n, seed, off), (how, n, seed, off)


@pytest.mark.distribution
def test_values_of_wrong_weights_that_were_sampled_are_believed():
    """The negative control, as early as 150 tokens for weights that are near."""
    assert sum(told("weights", 150, seed) is None for seed in range(100)) >= 90
    assert sum(told("weights", 600, seed, 1.0) is None for seed in range(40)) >= 36
    assert "too few" in told("weights", 40)


ROW = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def spelt(ids):
    return "".join("abcde"[i] for i in ids)


def test_the_worst_are_those_of_the_smallest_chance():
    worst, kept = WorstTokens(), []
    for number, tokens in enumerate([[0, 3, 0], [4, 2], [0] * 30]):
        kept.append(Request((1, 2), tuple(tokens)))
        gap = np.where(np.array(tokens) == 4, 0.7, 0.0)
        worst.add(number, np.tile(ROW, (len(tokens), 1)), np.array(tokens), gap)
    found = worst.documents(kept, spelt)
    assert len(found) == MAX_WORST_TOKENS
    first, second, third = found[:3]
    assert (first.request, first.position, first.p, first.rank) == (1, 0, 0.0, 5)
    assert (first.text, first.before, first.after) == ("e", "bc", "c")
    assert (first.expected, first.expected_text, first.expected_p) == (0, "a", 0.5)
    assert (second.request, second.position, second.before) == (0, 1, "bca")
    assert second.chance == pytest.approx(0.05)
    assert (third.token, third.rank, third.slot) == (2, 3, None)
    assert third.chance == pytest.approx(0.2)


def test_of_tokens_that_are_cut_off_the_furthest_is_the_worst():
    worst = WorstTokens()
    tokens = np.full(20, 4)
    worst.add(0, np.tile(ROW, (20, 1)), tokens, np.arange(20) / 10)
    found = worst.documents([Request((0,), (4,) * 20)], spelt)
    assert [entry.position for entry in found] == list(range(19, 9, -1))


def test_the_order_in_which_requests_are_added_does_not_matter():
    rng = np.random.default_rng(0)
    rows = [rng.dirichlet(np.ones(5), 9) for _ in range(6)]
    drawn = [rng.integers(0, 5, 9) for _ in range(6)]
    kept = [Request((0,), tuple(own.tolist())) for own in drawn]
    both = WorstTokens(), WorstTokens()
    for worst, order in zip(both, (range(6), reversed(range(6))), strict=True):
        for i in order:
            worst.add(i, rows[i], drawn[i], np.zeros(9))
    assert both[0].documents(kept, spelt) == both[1].documents(kept, spelt)


def test_a_place_that_is_off_is_told_from_those_that_are_not():
    rng = np.random.default_rng(1)
    kept, deviations = [], []
    for _ in range(200):
        slots = tuple(i % 4 for i in range(12))
        kept.append(Request((0,), (1,) * 12, slots=slots))
        off = rng.normal(size=12) + np.where(np.array(slots) == 2, 1.0, 0.0)
        deviations.append(np.stack([off, np.ones(12)]))
    found = deviation_by_position("score -log p", deviations, kept)
    draft = {place.first: place.sigmas for place in found if place.of == "draft"}
    assert draft.keys() == {0, 1, 2, 3}
    assert draft.pop(2) > 15.0
    assert max(abs(sigmas) for sigmas in draft.values()) < 6.0
    request = [(place.first, place.last, place.tokens) for place in found if place.of == "request"]
    assert request == [(0, 0, 200), (1, 1, 200), (2, 3, 400), (4, 7, 800), (8, 15, 800)]


def test_without_slots_and_with_few_tokens():
    few = [np.stack([np.zeros(3), np.ones(3)])]
    assert deviation_by_position("x", few, [Request((0,), (1, 1, 1))]) == ()
    assert WorstTokens().documents([], spelt) == ()
