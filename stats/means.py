"""Means and rates against exact values: binomial, empirical Bernstein and betting tests.

The null of a binomial test is an interval because exact laws come as enclosures: a rate is tested
against every probability between the proven lower and upper bound. The test of tau is built on it.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import scipy

from simverify.stats._checks import (
    Floats,
    TestResult,
    check_counts,
    check_open_unit,
    check_positive_float,
    check_positive_int,
    smallest_n,
    smallest_true,
)
from simverify.stats.tails import log_binom_cdf, log_binom_sf


def acceptance_test(
    tail_counts: Any,
    n: int,
    lower: Any,
    upper: Any,
    *,
    alpha: float,
    name: str = "acceptance",
) -> TestResult:
    """Test the law of tau, and so E[tau], against exact bounds, at every level l.

    For each l = 1..gamma the exact two-sided binomial p-value of #{tau >= l}, the largest over the
    probabilities in [lower, upper]; the smallest of them times gamma is the p-value. ``level`` and
    ``direction`` tell where, and on which side, the deviation is strongest; ``statistic`` is the
    observed rate there less the nearest bound. ``min_detectable`` is a shift of Pr(tau >= l) out of
    its bounds, at the worst level. ``tail_counts``: int (gamma,), blocks with tau >= l, for l =
    1..gamma. ``n``: blocks. ``lower``, ``upper``: float64 (gamma,), bounds on Pr(tau >= l) under
    the null; equal where the law is known exactly. Raises ``ValueError`` if counts rise with l or
    exceed n, bounds are not in order within [0, 1], shapes differ, n < 1 or alpha is outside (0,
    1).
    """
    counts, n = check_counts("tail_counts", tail_counts, 1), check_positive_int("n", n)
    low, high = _check_bounds(lower, upper)
    if counts.shape != low.shape:
        raise ValueError(f"tail_counts has shape {counts.shape}, expected {low.shape} as lower")
    if counts[0] > n or (np.diff(counts) > 0).any():
        raise ValueError(
            f"tail_counts {counts.tolist()} rise or exceed n = {n}, expected #{{tau >= l}}"
        )
    alpha = check_open_unit("alpha", alpha)
    levels = [
        _interval_log_pvalue(int(k), n, float(a), float(b))
        for k, a, b in zip(counts, low, high, strict=True)
    ]
    worst = min(range(len(levels)), key=levels.__getitem__)
    rate = counts[worst] / n
    nearest = min(max(rate, low[worst]), high[worst])
    above, below = rate > high[worst], rate < low[worst]
    return TestResult(
        name=name,
        statistic=float(rate - nearest),
        log_pvalue=min(0.0, levels[worst] + math.log(len(levels))),
        alpha=alpha,
        n=n,
        method=f"exact binomial against bounds, Bonferroni over {len(levels)} levels of tau",
        min_detectable=acceptance_min_detectable(n, low, high, alpha=alpha),
        deviation="shift of Pr(tau >= l)",
        level=worst + 1,
        direction="above" if above else "below" if below else None,
    )


def _check_bounds(lower: Any, upper: Any) -> tuple[Floats, Floats]:
    low = np.atleast_1d(np.asarray(lower, dtype=np.float64))
    high = np.atleast_1d(np.asarray(upper, dtype=np.float64))
    if low.ndim != 1 or low.shape != high.shape or low.size == 0:
        raise ValueError(f"lower, upper have shapes {low.shape}, {high.shape}, expected (gamma,)")
    good = (low >= 0.0) & (low <= high) & (high <= 1.0)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(
            f"bounds at index {bad} are [{low[bad]}, {high[bad]}], "
            "expected 0 <= lower <= upper <= 1"
        )
    return low, high


def _interval_log_pvalue(count: int, n: int, low: float, high: float) -> float:
    """Two-sided log p-value, twice the smaller tail, at its largest over [low, high].

    P(X >= count) rises and P(X <= count) falls with the probability, so the smaller of them
    is largest at an end of the interval, or is 1/2 or more inside it.
    """
    upper = log_binom_sf(count - 1, n, high)
    lower = log_binom_cdf(count, n, low)
    return min(0.0, math.log(2.0) + min(upper, lower))


def acceptance_min_detectable(
    n: int, lower: Any, upper: Any, *, alpha: float, power: float = 0.9
) -> float:
    """Smallest shift of any one Pr(tau >= l) out of its bounds found with this power.

    It is exact for a binomial count, and the largest over levels and over both directions;
    directions that leave [0, 1] do not count. inf if n is too small to promise a shift. ``n``:
    blocks. ``lower``, ``upper``: float64 (gamma,), bounds on Pr(tau >= l) under the null. Raises
    ``ValueError`` if n < 1, bounds are not in order within [0, 1], or alpha or power is outside (0,
    1).
    """
    n, (low, high) = check_positive_int("n", n), _check_bounds(lower, upper)
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    log_tail = math.log(alpha / (2 * low.size))
    # Down from a rate is up from its complement; equal ones are worked out once.
    starts = np.unique(np.concatenate([high[high < 1.0], 1.0 - low[low > 0.0]]))
    return max((_detectable_rise(n, float(p), log_tail, power) for p in starts), default=math.inf)


def _detectable_rise(n: int, p: float, log_tail: float, power: float) -> float:
    """Smallest rise of the probability above ``p`` that an upper test finds."""
    most = smallest_true(lambda k: log_binom_sf(k - 1, n, p) < log_tail, n + 1, 1)
    if most > n:
        return math.inf
    # P(X >= k) at probability x is the beta(k, n-k+1) cdf at x.
    return float(scipy.special.betaincinv(most, n - most + 1, power)) - p


def acceptance_samples(
    shift: float, lower: Any, upper: Any, *, alpha: float, power: float = 0.9
) -> int:
    """Blocks that find a shift of any one Pr(tau >= l) out of its bounds.

    Within the jitter of the binomial lattice the smallest such number. Raises ``ValueError`` if
    ``shift`` is outside (0, 1), larger than what every level leaves room for, so small that 2^50
    blocks do not find it (below 1e-7, near which binomial tails run out of digits), bounds are not
    in order within [0, 1], or alpha or power is outside (0, 1).
    """
    shift = check_open_unit("shift", check_positive_float("shift", shift))
    low, high = _check_bounds(lower, upper)
    room = np.concatenate([1.0 - high[high < 1.0], low[low > 0.0]])
    if room.size == 0 or shift >= room.min():
        raise ValueError(
            f"shift is {shift}, expected less than {room.min() if room.size else 0.0:.6g}, "
            "the room that the bounds leave within [0, 1] at every level"
        )

    detectable = partial(acceptance_min_detectable, lower=low, upper=high, alpha=alpha, power=power)
    return smallest_n(lambda n: detectable(n) <= shift, f"shift {shift:g}", unit="blocks")


_MIN_ERROR = 1e-30


def rate_interval(count: Any, n: int, *, error: float = 1e-3) -> tuple[Floats, Floats]:
    """Clopper-Pearson bounds of a rate, elementwise.

    ``count``: int (k,), successes of ``n`` trials each. ``error``: probability of missing the rate.
    Returns the low and the high ends, float64 (k,). Raises ``ValueError`` if a count is negative or
    above n, n < 1, or error is outside [1e-30, 1): quantiles of the beta law that scipy gives for
    far smaller ones are wrong.
    """
    # Half a second, which no test has to wait for.
    from statsmodels.stats.proportion import proportion_confint

    counts, n = check_counts("count", count, 1), check_positive_int("n", n)
    if counts.size and counts.max() > n:
        raise ValueError(f"count is {counts.max()}, expected at most n = {n}")
    if check_open_unit("error", error) < _MIN_ERROR:
        raise ValueError(f"error is {error:g}, expected {_MIN_ERROR:g} or more")
    low, high = proportion_confint(counts, n, alpha=error, method="beta")
    return np.asarray(low), np.asarray(high)


# Means of bounded variables against their exact values, by the empirical Bernstein bound.


def bounded_means_test(
    sums: Any, squares: Any, n: int, expected: Any, high: Any, *, alpha: float, name: str
) -> TestResult:
    """Test means of whole numbers in [0, high] against what they should be.

    Each mean's two-sided p-value is the smallest error at which its empirical Bernstein interval
    (:func:`empirical_bernstein`) excludes the expected value; the smallest of them times their
    number is the p-value. ``level`` (from 1) and ``direction`` tell which mean is furthest off;
    ``statistic`` is that mean less its expectation. ``min_detectable`` is a shift of the mean whose
    bound is widest, for the variance seen here. ``sums``, ``squares``: int (k,), sums over ``n``
    independent trials of the k variables and of their squares. ``n``: trials, 2 or more.
    ``expected``: float64 (k,), exact means under the null. ``high``: int (k,), largest value that
    each variable can take. Raises ``ValueError`` if shapes differ, there is nothing to test, n < 2,
    sums leave [0, n high], squares do not go with them, or alpha is outside (0, 1).
    """
    totals, second = check_counts("sums", sums, 1), check_counts("squares", squares, 1)
    most, n = check_counts("high", high, 1), check_positive_int("n", n, 2)
    means, alpha = np.asarray(expected, dtype=np.float64), check_open_unit("alpha", alpha)
    if not totals.shape == second.shape == most.shape == means.shape or totals.size == 0:
        raise ValueError(
            f"sums, squares, expected, high have shapes {totals.shape}, {second.shape}, "
            f"{means.shape}, {most.shape}, expected the same (k,), k = 1 or more"
        )
    if most.min() < 1 or (totals > n * most).any() or (second > totals * most).any():
        raise ValueError("sums or squares exceed what n values in [0, high] can give")
    if any(n * int(b) < int(a) ** 2 for a, b in zip(totals, second, strict=True)):
        raise ValueError("squares are smaller than the sums allow, expected sums of squares")
    if not np.isfinite(means).all():
        raise ValueError(f"expected is {means.tolist()}, expected finite means")
    # Integer sums keep the variance exact however many trials there are.
    variances = np.array(
        [(n * int(b) - int(a) ** 2) / (n * (n - 1)) for a, b in zip(totals, second, strict=True)]
    )
    shifts = totals / n - means
    # Half width sqrt(2 v L / n) + 7 s L / (3 (n - 1)), with L = ln(4 / error).
    linear = 7.0 * most / (3.0 * (n - 1))
    root = np.sqrt(2.0 * variances / n)
    roots = (np.sqrt(root**2 + 4.0 * linear * np.abs(shifts)) - root) / (2.0 * linear)
    logs = np.minimum(math.log(4.0) - roots**2, 0.0)
    worst = int(np.argmin(logs))
    k = len(totals)
    needed = math.log(4.0 * k / alpha)
    critical = root * math.sqrt(needed) + linear * needed
    # The mean falls short of its expectation by more than this once in ten (Bernstein).
    slack = root * math.sqrt(math.log(10.0)) + most * math.log(10.0) / (3.0 * n)
    shift = float(shifts[worst])
    return TestResult(
        name=name,
        statistic=shift,
        log_pvalue=min(0.0, float(logs[worst]) + math.log(k)),
        alpha=alpha,
        n=n,
        method=f"empirical Bernstein, Bonferroni over {k} means",
        min_detectable=float((critical + slack).max()),
        deviation="shift of a mean",
        level=worst + 1,
        direction="above" if shift > 0.0 else "below" if shift < 0.0 else None,
    )


# The mean of values in [0, 1] against a limit: bets that pay where it is above.


BET_STAKES = (0.9, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Shares of the most that can be bet, 1 / limit, without ruin."""


def capped_mean_test(values: Any, *, limit: float, alpha: float, name: str) -> TestResult:
    """Test that values in [0, 1] have a mean of ``limit`` at most; ``statistic`` is their mean.

    A bet multiplies what it has by 1 + s (value / limit - 1). If each value's mean given those
    before is m_i, the product's is that of 1 + s (m_i / limit - 1), and no more than 1 where they
    are fixed and ``limit`` on average, as a product of factors is largest where they are equal.
    ``values``: float64 (n,), each in [0, 1]; n >= 1. ``limit``: above 0, below 1. Raises
    ``ValueError`` if values are none, NaN or outside [0, 1], or limit or alpha outside (0, 1).

    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
    Journal of the Royal Statistical Society B 86 (2024) 1-27.
    """
    y, limit, alpha = _check_values(values, limit, alpha)
    log_evalue = float(_bet_log_evalues(y, limit)[-1])
    return TestResult(
        name=name,
        statistic=float(y.mean()),
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=y.size,
        method=f"e-value of bets that the mean is above {limit:.3g}",
        deviation="mean",
    )


def values_needed(values: Any, *, limit: float, alpha: float) -> int | None:
    """How many of the values the same bets needed for a product of 1 / alpha; None: not there.

    Parameters and errors are those of :func:`capped_mean_test`.
    """
    y, limit, alpha = _check_values(values, limit, alpha)
    reached = _bet_log_evalues(y, limit) >= -math.log(alpha)
    return int(reached.argmax()) + 1 if reached.any() else None


def _check_values(values: Any, limit: float, alpha: float) -> tuple[Any, float, float]:
    y = np.asarray(values, float)
    if y.ndim != 1 or not y.size or not ((y >= 0.0) & (y <= 1.0)).all():
        raise ValueError(f"values have shape {y.shape}: expected (n,), n >= 1, each in [0, 1]")
    return y, check_open_unit("limit", limit), check_open_unit("alpha", alpha)


def _bet_log_evalues(y: Any, limit: float) -> Any:
    wins = [np.cumsum(np.log1p(stake * (y / limit - 1.0))) for stake in BET_STAKES]
    return scipy.special.logsumexp(wins, axis=0, b=1.0 / len(BET_STAKES))


# Confidence intervals for means of bounded variables.


def empirical_bernstein(
    mean: float, variance: float, n: int, *, low: float, high: float, error: float
) -> tuple[float, float]:
    """Two-sided empirical Bernstein interval of a mean, valid at every n.

    For E[tau] and its Rao-Blackwell estimates, which lie in [0, gamma]. With s = high - low and L =
    ln(4 / error), half of the error for each side, the half width is sqrt(2 variance L / n) + 7 s L
    / (3 (n - 1)). ``mean``, ``variance``: sample mean and unbiased sample variance (divisor n - 1).
    ``n``: independent observations, 2 or more. ``low``, ``high``: range that every observation lies
    in; the interval is clipped to it. ``error``: probability of missing the mean: 1 less the
    confidence, which would round a small one away. Raises ``ValueError`` if n < 2, the range is
    empty, the mean lies outside it, the variance is negative or more than the range allows, or
    error is outside (0, 1).

    Source: Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT
    2009, Theorem 4.
    """
    n, span = _check_empirical_bernstein(mean, variance, n, low, high)
    log_term = math.log(4.0) - math.log(check_open_unit("error", error))
    half = math.sqrt(2.0 * variance * log_term / n) + 7.0 * span * log_term / (3.0 * (n - 1))
    return max(low, mean - half), min(high, mean + half)


def stratified_bernstein(
    mean: float, variance: float, n: int, *, low: float, high: float, error: float
) -> tuple[float, float]:
    """Two-sided Bernstein interval of a mean over strata, two observations in each.

    The observations X, X' of a stratum are independent and of one law; ``mean`` is that of all of
    them, and its error is made within the strata alone. With s = high - low and L = ln(4 / error)
    the half width is sqrt(variance L / n) + 4 s L / (3 n), valid at every n: Bernstein's inequality
    for the n pair means, whose mean variance is v / 2, and sqrt(v) <= sqrt(variance) + s sqrt(L /
    n), each with probability e^-L of failing. The latter is the lower tail of nonnegative summands
    [1]: (X - X')^2 / 2 has mean square at most s^2/2 times its mean. ``mean``: mean of the 2 n
    observations. ``variance``: mean over the strata of (X - X')^2 / 2. ``n``: strata, 2 or more,
    all of equal weight. Other parameters and errors are those of :func:`empirical_bernstein`.

    Source: Maurer, "A bound on the deviation probability for sums of non-negative random
    variables", JIPAM 4(1), 2003, theorem 1.
    """
    n, span = _check_empirical_bernstein(mean, variance / 2.0, n, low, high)
    log_term = math.log(4.0) - math.log(check_open_unit("error", error))
    half = math.sqrt(variance * log_term / n) + 4.0 * span * log_term / (3.0 * n)
    return max(low, mean - half), min(high, mean + half)


def _check_empirical_bernstein(
    mean: float, variance: float, n: int, low: float, high: float
) -> tuple[int, float]:
    n = check_positive_int("n", n, 2)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the range is [{low}, {high}], expected finite low < high")
    slack = 1e-9 * (high - low)  # a mean summed in floating point may overshoot the range
    if not low - slack <= mean <= high + slack:
        raise ValueError(f"mean is {mean}, expected it within the range [{low}, {high}]")
    most = (high - low) ** 2 / 4.0 * n / (n - 1)
    if not 0.0 <= variance <= most * (1.0 + 1e-9):
        raise ValueError(f"variance is {variance}, expected 0 to {most:.6g} for this range and n")
    return n, high - low
