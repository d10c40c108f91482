"""Empirical Bernstein: the formula, coverage on skewed rare variables, a control that fails."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import empirical_bernstein


def test_formula():
    # Each side at delta = .01: sqrt(2 V ln(200)/n) + 7 * 8 ln(200)/(3 (n-1)).
    low, high = empirical_bernstein(3.0, 2.0, 1000, low=0, high=8, error=0.02)
    half = math.sqrt(4 * 5.298317366548036 / 1000) + 56 * 5.298317366548036 / 2997
    assert (low, high) == pytest.approx((3 - half, 3 + half))


def test_small_variance_beats_hoeffding():
    low, high = empirical_bernstein(3.0, 0.1, 10**5, low=0, high=8, error=0.01)
    assert high - low < 0.2 * 2 * 8 * math.sqrt(math.log(200) / 2e5)


def test_clipped_to_the_range():
    assert empirical_bernstein(0.0, 0.0, 5, low=0, high=8, error=1e-3) == (0, 8)


@pytest.mark.distribution
@pytest.mark.parametrize("rate", [1e-3, 0.02, 0.5])
def test_coverage_of_rare_and_common_events(rate):
    """tau is gamma with probability ``rate`` and 0 otherwise, the most skewed law there is."""
    rng = np.random.default_rng(41)
    n, gamma, error, repeats = 500, 8, 0.1, 3000
    misses = normal_misses = 0
    for hits in rng.binomial(n, rate, repeats):
        mean = gamma * hits / n
        variance = gamma**2 * hits * (n - hits) / (n * (n - 1))
        low, high = empirical_bernstein(mean, variance, n, low=0, high=gamma, error=error)
        misses += not low <= gamma * rate <= high
        half = stats.norm.isf(0.05) * math.sqrt(variance / n)
        normal_misses += not mean - half <= gamma * rate <= mean + half
    allowed = stats.binom.isf(ALPHA, repeats, error)
    assert misses <= allowed
    # Negative control: the normal interval misses a rare event's mean far too often.
    if rate == 1e-3:
        assert normal_misses > allowed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 1}, "n is 1"),
        ({"mean": 9.0}, "within the range"),
        ({"mean": math.nan}, "within the range"),
        ({"variance": -1.0}, "variance is -1"),
        ({"variance": 17.0}, "variance is 17"),
        ({"variance": math.nan}, "variance is nan"),
        ({"low": 8.0}, "low < high"),
        ({"high": math.inf}, "low < high"),
        ({"error": 0.0}, "error is 0"),
    ],
)
def test_errors(changes, message):
    good = {"mean": 3.0, "variance": 2.0, "n": 100, "low": 0.0, "high": 8.0, "error": 0.1}
    with pytest.raises(ValueError, match=message):
        empirical_bernstein(**(good | changes))
