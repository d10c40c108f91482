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
    bounded_means_test,
    capped_mean_test,
    empirical_bernstein,
    rate_interval,
    values_needed,
)
from simverify.stats.tails import log_binom_cdf, log_binom_sf


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


# Means of bounded variables: the p-value inverts the interval, the size holds, shifts show.


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
def test_errors_bounded_means(arguments, message):
    sums, squares, n, expected, high = arguments
    with pytest.raises(ValueError, match=message):
        bounded_means_test(
            np.array(sums, int), np.array(squares, int), n, expected, np.array(high, int),
            alpha=0.01, name="means",
        )  # fmt: skip


# Bets that a mean is above a limit: their size, their power, their edges.


LIMIT = 0.01


@pytest.mark.distribution
def test_size_and_power():
    """Of 4,000 samples at the limit few are rejected at 1 in 20; of those at five times it all."""
    rng = np.random.default_rng(0)

    def rejected(mean, draws):
        samples = rng.binomial(1, mean * 2, (draws, 400)) * 0.5
        tests = [capped_mean_test(y, limit=LIMIT, alpha=0.05, name="m") for y in samples]
        return np.mean([test.rejected for test in tests])

    assert rejected(LIMIT, 4000) < 0.05
    assert rejected(5 * LIMIT, 200) > 0.99


@pytest.mark.distribution
def test_a_mean_that_is_the_limit_only_on_average_is_not_rejected():
    rng = np.random.default_rng(1)
    means = np.where(np.arange(400) < 40, 10 * LIMIT, 0.0)
    samples = rng.binomial(1, means, (2000, 400)).astype(float)
    tests = [capped_mean_test(y, limit=LIMIT, alpha=0.05, name="m") for y in samples]
    assert np.mean([test.rejected for test in tests]) < 0.05


def test_how_many_values_were_needed():
    y = np.full(100, 0.3)
    n = values_needed(y, limit=LIMIT, alpha=1e-6)
    assert capped_mean_test(y[:n], limit=LIMIT, alpha=1e-6, name="m").rejected
    assert not capped_mean_test(y[: n - 1], limit=LIMIT, alpha=1e-6, name="m").rejected
    assert values_needed(np.zeros(100), limit=LIMIT, alpha=1e-6) is None


@pytest.mark.parametrize("values", [[], [np.nan], [1.5], [-0.1], [[0.1]]])
def test_values_outside_are_refused(values):
    with pytest.raises(ValueError, match="values have shape"):
        capped_mean_test(values, limit=LIMIT, alpha=0.1, name="m")


def test_limits_outside_are_refused():
    for limit, alpha in ((0.0, 0.1), (1.0, 0.1), (0.1, 0.0)):
        with pytest.raises(ValueError, match="expected"):
            capped_mean_test([0.1], limit=limit, alpha=alpha, name="m")


# Empirical Bernstein: the formula, coverage on skewed rare variables, a control that fails.


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
def test_errors_intervals(changes, message):
    good = {"mean": 3.0, "variance": 2.0, "n": 100, "low": 0.0, "high": 8.0, "error": 0.1}
    with pytest.raises(ValueError, match=message):
        empirical_bernstein(**(good | changes))
