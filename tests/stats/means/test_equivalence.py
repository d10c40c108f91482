"""E[tau] within a margin of its reference: coverage, both intervals, edges."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import acceptance_equivalence, betting_interval, rate_interval

LAWS = [np.array([0.35, 0.25, 0.2, 0.15, 0.05]), np.array([0.98, 0.0, 0.0, 0.0, 0.02])]


@pytest.mark.distribution
@pytest.mark.parametrize("law", LAWS)
def test_margin_covers_the_distance_to_the_reference(law):
    rng, repeats, delta, n = np.random.default_rng(93), 1000, 0.1, 400
    mean, reference = float(law @ np.arange(5)), 0.9
    misses = half_margin = 0
    for _ in range(repeats):
        result = acceptance_equivalence(
            rng.multinomial(n, law), reference - 0.01, reference + 0.01, delta=delta
        )
        misses += not result.low <= mean <= result.high
        assert result.margin >= max(result.low - reference, reference - result.high)
        half_margin += abs(mean - reference) > result.margin / 2
    allowed = stats.binom.isf(ALPHA, repeats, delta)
    assert misses <= allowed
    # Negative control: half of what is certified is not.
    if mean < 0.5:
        assert half_margin > allowed


def test_it_is_the_intersection_at_half_delta_each():
    blocks = np.array([310, 240, 180, 150, 60])
    result = acceptance_equivalence(blocks, 1.3, 1.4, delta=0.01)
    at_least = [630, 390, 210, 60]
    lows, highs = rate_interval(at_least, 940, confidence=1 - 0.01 / 8)
    low, high = betting_interval(blocks, np.arange(5), low=0, high=4, confidence=0.995)
    assert result.low == max(low, lows.sum())
    assert result.high == min(high, highs.sum())
    assert result.margin == pytest.approx(max(result.high - 1.3, 1.4 - result.low))
    assert result.block_efficiency == (result.low + 1, result.high + 1)
    assert result.blocks == 940


def test_margin_shrinks_with_the_blocks():
    small, large = (
        acceptance_equivalence(np.array([35, 25, 20, 15, 5]) * k, 1.3, 1.3) for k in (1, 10**4)
    )
    assert large.margin < 0.02 < small.margin
    none = acceptance_equivalence([7, 0, 0], 0.0, 0.0)
    assert none.low == 0.0


@pytest.mark.parametrize(
    ("blocks", "bounds", "message"),
    [
        ([5], (0, 0), "gamma >= 1"),
        ([0, 0], (0, 0), "blocks are all 0"),
        ([5, 5], (0.5, 1.5), "0 <= lower <= upper <= 1"),
        ([5, 5], (0.5, math.nan), "0 <= lower <= upper <= 1"),
        ([5, -5], (0.5, 0.5), "no negative count"),
    ],
)
def test_errors(blocks, bounds, message):
    with pytest.raises(ValueError, match=message):
        acceptance_equivalence(blocks, *bounds)
