"""Values that are not of what was sampled are told apart from those of wrong weights."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.emitted.judging.agreement import doubt

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
    return doubt(known, ours, ours, np.abs(known - ours), whose, 1e-9, ALPHA)


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
