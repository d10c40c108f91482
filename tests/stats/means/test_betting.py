"""Betting on bounded means: coverage at every time, size and power, the bets by hand."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import (
    betting_interval,
    betting_min_detectable,
    betting_samples,
    betting_test,
)

TAU = np.array([0.35, 0.25, 0.2, 0.15, 0.05])
VALUES = np.arange(5)


def interval(counts, confidence=0.9):
    return betting_interval(counts, VALUES, low=0.0, high=4.0, confidence=confidence)


def wealth(counts, ratios):
    """Twenty-four fractions 1/2, 1/4, ... of the wealth, staked on every observation."""
    fractions = [2.0**-k for k in range(1, 25)]
    return np.mean([np.prod((1 - f + f * ratios) ** counts) for f in fractions])


def test_wealth_by_hand():
    counts, mean, x = np.array([3, 1, 0, 2, 4]), 0.3, VALUES / 4
    expected = (wealth(counts, x / mean) + wealth(counts, (1 - x) / (1 - mean))) / 2
    test = betting_test(counts, VALUES, 1.2, 1.2, low=0, high=4, alpha=0.05)
    assert test.log_pvalue == pytest.approx(-math.log(expected))
    assert test.statistic == 2.3
    assert not betting_test(counts, VALUES, 1.2, 2.4, low=0, high=4, alpha=0.05).rejected


def test_interval_ends_where_the_bets_have_won():
    counts, x = np.array([30, 20, 9, 7, 3]), VALUES / 4
    low, high = interval(counts, 0.9)
    assert wealth(counts, x / (low / 4)) == pytest.approx(20)
    assert wealth(counts, (1 - x) / (1 - high / 4)) == pytest.approx(20)


@pytest.mark.distribution
@pytest.mark.parametrize("rate", [0.003, 0.5])
def test_interval_covers_at_every_time(rate):
    """Checked six times on the way; the normal interval at a fixed n is the control."""
    rng, repeats, steps, confidence = np.random.default_rng(91), 200, 60, 0.9
    misses = normal_misses = 0
    for _ in range(repeats):
        hits = np.cumsum(rng.binomial(10, rate, steps))
        n = 10 * np.arange(1, steps + 1)
        missed = normal = False
        for k, total in zip(hits[9::10], n[9::10], strict=True):
            low, high = betting_interval(
                [total - k, k], [0.0, 1.0], low=0.0, high=1.0, confidence=confidence
            )
            missed |= not low <= rate <= high
            half = stats.norm.isf(0.05) * math.sqrt(k * (total - k) / total**3)
            normal |= not k / total - half <= rate <= k / total + half
        misses, normal_misses = misses + missed, normal_misses + normal
    allowed = stats.binom.isf(ALPHA, repeats, 1 - confidence)
    assert misses <= allowed < normal_misses


@pytest.mark.distribution
@pytest.mark.parametrize("law", [TAU, np.array([0.999, 0.0, 0.0, 0.0, 0.001])])
def test_power_at_the_planned_samples(law):
    rng, alpha, repeats, shift = np.random.default_rng(92), 1e-6, 200, 0.05
    mean, square = law @ VALUES, law @ VALUES**2
    n = betting_samples(shift, square - mean**2, span=4.0, alpha=alpha)
    # No larger than planned for the shift it reports.
    reported = betting_min_detectable(n, square - mean**2, span=4.0, alpha=alpha)
    assert reported == pytest.approx(shift, rel=1e-3)

    def rejections(n, bound):
        return sum(
            betting_test(
                rng.multinomial(n, law), VALUES, bound, bound, low=0, high=4, alpha=alpha
            ).rejected
            for _ in range(repeats)
        )

    enough = stats.binom.isf(1 - ALPHA, repeats, 0.9)
    assert rejections(n, mean + shift) >= enough > rejections(n // 6, mean + shift)
    assert rejections(n, mean) == 0


def test_edges():
    assert interval(np.array([0, 0, 0, 0, 50]))[1] == 4.0
    assert interval(np.array([50, 0, 0, 0, 0]))[0] == 0.0
    assert interval(np.array([0, 0, 1, 0, 0]), 0.999) == pytest.approx((0.0, 4.0), abs=1e-3)
    far = betting_test([0, 10**6], [0.0, 1.0], 0.0, 1e-3, low=0, high=1, alpha=1e-6)
    assert math.isfinite(far.log_pvalue)
    assert far.log_pvalue < -1e6
    impossible = betting_test([5, 1], [0.0, 1.0], 0.0, 0.0, low=0, high=1, alpha=1e-6)
    assert impossible.log_pvalue == -math.inf
    assert betting_min_detectable(10, 0.25, span=1.0, alpha=1e-6) == math.inf


GOOD = {"counts": [3, 4], "values": [0.0, 1.0], "low": 0.0, "high": 1.0, "confidence": 0.9}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [0.5, 1.0]}, "pass raw counts"),
        ({"counts": [0, 0]}, "counts are all 0"),
        ({"values": [0.0]}, "expected \\(2,\\) as counts"),
        ({"values": [0.0, 1.5]}, "expected them within"),
        ({"values": [0.0, math.nan]}, "expected them within"),
        ({"high": 0.0}, "finite low < high"),
        ({"confidence": 1.0}, "confidence is 1"),
    ],
)
def test_errors_of_the_interval(changes, message):
    with pytest.raises(ValueError, match=message):
        betting_interval(**(GOOD | changes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: betting_test([1, 1], [0, 1], 0.6, 0.5, low=0, high=1, alpha=0.1), "lower <= up"),
        (lambda: betting_test([1, 1], [0, 1], 0.5, 0.5, low=0, high=1, alpha=0), "alpha is 0"),
        (lambda: betting_samples(2.0, 0.1, span=1.0, alpha=0.1), "at most the range"),
        (lambda: betting_samples(0.1, math.inf, span=1.0, alpha=0.1), "variance is inf"),
        (lambda: betting_min_detectable(0, 0.1, span=1.0, alpha=0.1), "n is 0"),
        (lambda: betting_min_detectable(9, 0.1, span=0.0, alpha=0.1), "span is 0"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
