"""Means of bounded variables: the p-value inverts the interval, the size holds, shifts show."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import bounded_means_test, empirical_bernstein


def judge(values, expected, high, alpha=0.01):
    """``values`` int (n, k)."""
    return bounded_means_test(
        values.sum(axis=0), (values**2).sum(axis=0), len(values), expected, high,
        alpha=alpha, name="means",
    )  # fmt: skip


def test_the_p_value_inverts_the_interval():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 8, (500, 1))
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    for alpha in (0.3, 1e-3, 1e-9):
        low, high = empirical_bernstein(mean, variance, 500, low=0, high=7, error=alpha)
        for edge in (low, high):
            result = judge(values, [edge], [7])
            assert math.exp(result.log_pvalue) == pytest.approx(alpha, rel=1e-5)
            assert result.statistic == pytest.approx(mean - edge)
            assert result.direction == ("above" if edge == low else "below")


def test_the_smallest_p_value_times_their_number():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 5, (1000, 3))
    expected = values.mean(axis=0) + np.array([0.01, 0.4, 0.1])
    together = judge(values, expected, [4, 4, 4])
    alone = judge(values[:, 1:2], expected[1:2], [4])
    assert together.log_pvalue == pytest.approx(alone.log_pvalue + math.log(3))
    assert (together.level, together.direction, together.n) == (2, "below", 1000)


def test_certain_values_are_never_off():
    values = np.full((1000, 2), 3)
    result = judge(values, [3.0, 3.0], [3, 9])
    assert (result.log_pvalue, result.rejected, result.direction) == (0.0, False, None)
    assert judge(values, [3.0, 4.0], [3, 9], alpha=0.05).rejected


@pytest.mark.distribution
def test_size_and_power_at_the_promised_shift():
    rng = np.random.default_rng(3)
    n, high, alpha = 4000, np.array([6, 12]), 1e-3
    law = [rng.dirichlet(np.ones(h + 1)) for h in high]
    means = np.array([w @ np.arange(len(w)) for w in law])

    def draw():
        columns = [rng.choice(len(w), n, p=w) for w in law]
        return np.stack(columns, axis=1)

    rejected = sum(judge(draw(), means, high, alpha).rejected for _ in range(300))
    assert stats.binom.sf(rejected - 1, 300, alpha) > ALPHA / 2
    shift = judge(draw(), means, high, alpha).min_detectable
    # Negative control, at the shift promised: found nine times in ten or more.
    found = sum(
        judge(draw(), means + np.array([0.0, shift]), high, alpha).rejected for _ in range(100)
    )
    assert stats.binom.cdf(found, 100, 0.9) > ALPHA / 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], 10, [], []), "shapes"),
        (([5], [25], 1, [1.0], [5]), "n is 1"),
        (([50], [80], 10, [1.0], [4]), "exceed"),
        (([20], [10], 10, [1.0], [4]), "smaller than"),
        (([20], [60], 10, [math.nan], [4]), "finite"),
        (([-1], [1], 10, [1.0], [4]), "no negative count"),
        (([20], [60], 10, [1.0, 2.0], [4]), "shapes"),
    ],
)
def test_errors(arguments, message):
    sums, squares, n, expected, high = arguments
    with pytest.raises(ValueError, match=message):
        bounded_means_test(
            np.array(sums, int), np.array(squares, int), n, expected, np.array(high, int),
            alpha=0.01, name="means",
        )  # fmt: skip
