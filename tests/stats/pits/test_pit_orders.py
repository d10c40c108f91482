"""PITs of plain rows against a loop over tokens, in every order; and what each order sees."""

import math

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.stats import PIT_BINS, ks_min_detectable, ks_samples, order_key, pit_bounds, pit_ks

ORDERS = ("ratio", "index", "descending")


def plain_bounds(row, draft, token, order):
    """F(x-) and F(x-) + P(x) by sorting, token by token."""
    keys = {
        "ratio": [b / a if a else math.inf for a, b in zip(row, draft, strict=True)],
        "index": list(range(len(row))),
        "descending": [-a for a in row],
    }[order]
    below = 0.0
    for x in sorted(range(len(row)), key=lambda x: (keys[x], x)):
        if x == token:
            return below, below + row[x]
        below += row[x]
    raise AssertionError


@pytest.mark.parametrize("order", ORDERS)
def test_bounds_against_a_loop(order):
    rng = np.random.default_rng(111)
    # Quarters: ties in every order, zeros on either side.
    rows = rng.multinomial(4, np.full(6, 1 / 6), 300) / 4.0
    drafts = rng.multinomial(4, np.full(6, 1 / 6), 300) / 4.0
    tokens = rng.integers(0, 6, 300)
    below, above = pit_bounds(rows, order_key(order, rows, drafts), tokens)
    expected = [plain_bounds(*parts, order) for parts in zip(rows, drafts, tokens, strict=True)]
    np.testing.assert_allclose(np.stack([below, above], axis=1), expected, atol=1e-12)


def draw(rng, rows):
    """One token of each row."""
    cdf = np.cumsum(rows, axis=1)
    return (rng.random((len(rows), 1)) * cdf[:, -1:] > cdf).sum(axis=1)


def ks(rng, rows, drafts, tokens, order, **options):
    below, above = pit_bounds(rows, order_key(order, rows, drafts), tokens)
    u = below + rng.random(len(tokens)) * (above - below)
    bins = np.minimum((u * PIT_BINS).astype(int), PIT_BINS - 1)
    return pit_ks(np.bincount(bins, minlength=PIT_BINS), **options)


@pytest.mark.distribution
def test_contexts_that_never_repeat_pass_in_every_order_and_a_leak_shows_in_q_over_p():
    """A tenth of the tokens drawn from the draft: the ratio order alone lines it up."""
    rng = np.random.default_rng(112)
    rows = rng.dirichlet(np.full(12, 0.4), 20_000)
    drafts = 0.5 * rows + 0.5 * rng.dirichlet(np.full(12, 0.4), 20_000)
    healthy = draw(rng, rows)
    for order in ORDERS:
        assert not ks(rng, rows, drafts, healthy, order, alpha=ALPHA / 3).rejected
    leaky = draw(rng, 0.9 * rows + 0.1 * drafts)
    assert ks(rng, rows, drafts, leaky, "ratio", alpha=1e-6).rejected
    assert not ks(rng, rows, drafts, leaky, "index", alpha=1e-6).rejected


def test_ks_in_a_ball():
    bins = np.full(PIT_BINS, 8)
    bins[:100] += 200
    plain, inside = pit_ks(bins, alpha=1e-6), pit_ks(bins, alpha=1e-6, ball=0.05)
    assert plain.rejected
    assert inside.log_pvalue == 0.0
    assert inside.statistic == plain.statistic
    near = pit_ks(bins, alpha=1e-6, ball=plain.statistic / 2)
    assert near.log_pvalue == pytest.approx(plain.log_pvalue / 4, rel=0.02)
    assert "within TV 0.05" in inside.method
    assert "within" not in plain.method
    assert inside.min_detectable == pytest.approx(plain.min_detectable + 0.05)
    n = ks_samples(0.02, alpha=1e-6, ball=0.01)
    assert ks_min_detectable(n, alpha=1e-6, ball=0.01) <= 0.02
    assert ks_min_detectable(n - 1, alpha=1e-6, ball=0.01) > 0.02
    with pytest.raises(ValueError, match="one bin and the ball"):
        ks_samples(0.01, alpha=1e-6, ball=0.01)


@pytest.mark.parametrize(
    ("row", "key", "token", "message"),
    [
        ([[0.5, 0.4998]], [[0, 1]], [0], "sums to 0.9998"),
        ([[0.5, 0.5]], [[0, 1, 2]], [0], "key has shape"),
        ([[0.5, 0.5]], [[0, math.nan]], [0], "a NaN"),
        ([[0.5, 0.5]], [[0, 1]], [2], r"span 2\.\.2"),
        ([[0.5, 0.5]], [[0, 1]], [0.0], "tokens is float64"),
        ([[0.5, 0.5]], [[0, 1]], [0, 1], "tokens is int64"),
    ],
)
def test_bounds_errors(row, key, token, message):
    with pytest.raises(ValueError, match=message):
        pit_bounds(row, key, np.array(token))


def test_order_errors():
    row = np.array([[0.5, 0.5]])
    with pytest.raises(ValueError, match="order is 'size'"):
        order_key("size", row)
    with pytest.raises(ValueError, match="q has shape"):
        order_key("ratio", row)
