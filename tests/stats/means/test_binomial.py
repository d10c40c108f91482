"""Exact tests of tau against bounds: size by enumeration, power exactly, direction."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import (
    acceptance_min_detectable,
    acceptance_samples,
    acceptance_test,
    rate_interval,
)
from simverify.stats.tails.log_tails import log_binom_cdf, log_binom_sf


def one_level(count, n, low, high, alpha=0.05):
    return acceptance_test([count], n, [low], [high], alpha=alpha)


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.3), (0.25, 0.4), (0.0, 0.02), (0.9, 1.0)])
def test_pvalue_is_the_largest_over_the_interval(low, high):
    n, grid = 40, np.linspace(low, high, 2001)
    for count in range(n + 1):
        tails = stats.binom.cdf(count, n, grid), stats.binom.sf(count - 1, n, grid)
        naive = min(1.0, (2 * np.minimum(*tails)).max())
        got = one_level(count, n, low, high).pvalue
        assert got == pytest.approx(naive, rel=2e-3, abs=1e-300)
        assert got >= naive * (1 - 1e-9)


def test_size_by_enumeration_over_both_levels():
    """All outcomes of 40 blocks with gamma = 2: the exact size is at most alpha."""
    n, alpha = 40, 0.02
    for law in ((0.3, 0.3, 0.4), (0.1, 0.2, 0.7), (0.6, 0.39, 0.01)):
        rates = [law[1] + law[2], law[2]]
        size = 0.0
        for none in range(n + 1):
            for both in range(n + 1 - none):
                result = acceptance_test([n - none, both], n, rates, rates, alpha=alpha)
                if result.rejected:
                    size += stats.multinomial.pmf([none, n - none - both, both], n, law)
        assert 0.1 * alpha < size <= alpha


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (0.1, 0.12), (0.001, 0.001)])
@pytest.mark.parametrize("n", [50_000, 10**6])
def test_power_at_the_planned_shift(low, high, n):
    """The exact power of a shift out of the bounds, in both directions."""
    alpha = 1e-6
    shift = acceptance_min_detectable(n, low, high, alpha=alpha)
    powers = []
    for direction in (1, -1):
        rate = high + shift if direction > 0 else low - shift
        if not 0 < rate < 1:
            continue
        # Smallest deviating count that the test rejects.
        inside, outside = int(n * (low + high) / 2), n if direction > 0 else 0
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            if one_level(middle, n, low, high, alpha).rejected:
                outside = middle
            else:
                inside = middle
        law = stats.binom(n, rate)
        powers.append(law.sf(outside - 1) if direction > 0 else law.cdf(outside))
    assert min(powers) >= 0.9 - 1e-6
    assert min(powers) < 0.91


TOKEN = np.array([2 / 3, 4 / 9])
BLOCK = np.array([2 / 3, 5 / 9])


def tail_counts(rng, rates, n):
    levels = np.searchsorted(-rates, -rng.random(n))
    return [(levels >= level).sum() for level in range(1, rates.size + 1)]


@pytest.mark.distribution
def test_block_is_above_tokens_law_and_token_below_blocks():
    """The toy at gamma = 2, exact acceptance curves of docs/explanation/statistics.md."""
    rng = np.random.default_rng(31)
    n = 20_000
    token, block = (tail_counts(rng, rates, n) for rates in (TOKEN, BLOCK))
    for counts, rates in ((token, TOKEN), (block, BLOCK)):
        assert not acceptance_test(counts, n, rates, rates, alpha=ALPHA).rejected
    above = acceptance_test(block, n, TOKEN, TOKEN, alpha=1e-6)
    assert (above.rejected, above.direction, above.level) == (True, "above", 2)
    below = acceptance_test(token, n, BLOCK, BLOCK, alpha=1e-6)
    assert (below.rejected, below.direction, below.level) == (True, "below", 2)
    assert above.statistic == pytest.approx(1 / 9, abs=0.05)
    assert below.statistic == pytest.approx(-1 / 9, abs=0.05)


def test_inside_the_bounds_nothing_deviates():
    result = acceptance_test([60, 30], 100, [0.5, 0.2], [0.7, 0.4], alpha=0.01)
    assert (result.log_pvalue, result.statistic, result.direction) == (0.0, 0.0, None)


def test_far_tail():
    assert one_level(10**6, 10**6, 0.5, 0.5).log_pvalue == pytest.approx(
        math.log(2) - 10**6 * math.log(2)
    )
    assert one_level(1, 1000, 0.0, 0.0).log_pvalue == -math.inf
    assert one_level(1000, 1000, 1.0, 1.0).log_pvalue == 0.0


def test_samples():
    bounds = [0.7, 0.3], [0.7, 0.31]
    n = acceptance_samples(0.02, *bounds, alpha=1e-6)
    assert acceptance_min_detectable(n, *bounds, alpha=1e-6) <= 0.02
    assert acceptance_min_detectable(int(0.97 * n), *bounds, alpha=1e-6) > 0.02
    # Normal theory: ((z_alpha + z_power) sd / shift)^2.
    z = stats.norm.isf(1e-6 / 4) + stats.norm.isf(0.1)
    assert n == pytest.approx(z**2 * 0.3 * 0.7 / 0.02**2, rel=0.05)


def test_samples_of_the_smallest_shifts():
    """Binomial tails of 10^13 blocks have their digits, those of 10^17 have not."""
    z = stats.norm.isf(1e-6 / 2) + stats.norm.isf(0.1)
    for rate in (0.1, 0.5):
        n = acceptance_samples(1e-6, [rate], [rate], alpha=1e-6)
        assert n == pytest.approx(z**2 * rate * (1 - rate) / 1e-12, rel=1e-3)
    for shift in (1e-8, 1e-13):
        with pytest.raises(ValueError, match=r"is not found by 1e\+15 blocks, expected a larger"):
            acceptance_samples(shift, [0.5], [0.5], alpha=1e-6)


def test_too_few_blocks_promise_nothing():
    assert acceptance_min_detectable(3, [0.5], [0.5], alpha=1e-6) == math.inf
    assert acceptance_min_detectable(10, [0.0], [1.0], alpha=0.1) == math.inf


@pytest.mark.parametrize("error", [0.01, 1e-13, 1e-30])
def test_clopper_pearson(error):
    """At its ends a count lies in a tail of half the error: exactly, however small that is."""
    n = 50
    low, high = rate_interval(np.arange(n + 1), n, error=error)
    assert (low[0], high[n]) == (0.0, 1.0)
    half = math.log(error / 2)
    for count in range(1, n + 1):
        assert log_binom_sf(count - 1, n, low[count]) == pytest.approx(half, rel=1e-6)
        top = high[n - count]
        if top < 1 - 1e-9:  # nearer to 1 a float has too few digits for its tail
            assert log_binom_cdf(n - count, n, top) == pytest.approx(half, rel=1e-3)
    with pytest.raises(ValueError, match="error is 1e-300, expected 1e-30 or more"):
        rate_interval([25], n, error=1e-300)
    wide, narrow = rate_interval([25], n, error=1e-3), rate_interval([25], n, error=0.5)
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([5], 0, [0.5], [0.5]), "n is 0"),
        (([11], 10, [0.5], [0.5]), "exceed n = 10"),
        (([3, 4], 10, [0.5, 0.5], [0.5, 0.5]), "rise"),
        (([-1], 10, [0.5], [0.5]), "no negative"),
        (([1.5], 10, [0.5], [0.5]), "expected integers"),
        (([5], 10, [0.6], [0.5]), "lower <= upper"),
        (([5], 10, [math.nan], [0.5]), "lower <= upper"),
        (([5], 10, [0.5], [1.1]), "lower <= upper"),
        (([5, 4], 10, [0.5], [0.5]), "tail_counts has shape"),
        (([], 10, [], []), "expected integers|expected \\(gamma,\\)"),
    ],
)
def test_errors(arguments, message):
    counts, n, low, high = arguments
    with pytest.raises(ValueError, match=message):
        acceptance_test(np.array(counts), n, low, high, alpha=0.01)


def test_more_errors():
    with pytest.raises(ValueError, match="alpha is 0"):
        one_level(5, 10, 0.5, 0.5, alpha=0)
    with pytest.raises(ValueError, match="the room that the bounds leave"):
        acceptance_samples(0.4, [0.3], [0.7], alpha=0.01)
    with pytest.raises(ValueError, match="at most n = 3"):
        rate_interval([4], 3)
    with pytest.raises(ValueError, match="error is 1"):
        rate_interval([2], 3, error=1.0)
