"""Binomial tests against an interval of probabilities, and the test of tau built on them.

The null is an interval because exact laws come as enclosures: a rate is tested against every
probability between the proven lower and upper bound.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Floats, Ints, open_unit, positive_float, positive_int
from simverify.stats._checks import counts as check_counts
from simverify.stats._search import smallest_n
from simverify.stats.results import Direction, TestResult
from simverify.stats.tails.log_tails import log_binom_cdf, log_binom_sf


@dataclass(frozen=True)
class _Level:
    log_pvalue: float
    direction: Direction | None


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

    For each l = 1..gamma the exact two-sided binomial p-value of #{tau >= l}, the largest
    over the probabilities in [lower, upper]; the smallest of them times gamma is the
    p-value. ``level`` and ``direction`` tell where, and on which side, the deviation is
    strongest; ``statistic`` is the observed rate there less the nearest bound.
    ``min_detectable`` is a shift of Pr(tau >= l) out of its bounds, at the worst level.

    Parameters
    ----------
    tail_counts : int array (gamma,)
        Blocks with tau >= l, for l = 1..gamma.
    n : int
        Blocks.
    lower, upper : float64 array (gamma,)
        Bounds on Pr(tau >= l) under the null; equal where the law is known exactly.

    Raises
    ------
    ValueError
        If counts rise with l or exceed n, bounds are not in order within [0, 1], shapes
        differ, n < 1 or alpha is outside (0, 1).
    """
    counts, n, low, high = _acceptance_iv(tail_counts, n, lower, upper)
    alpha = open_unit("alpha", alpha)
    levels = [
        _interval_test(int(k), n, float(a), float(b))
        for k, a, b in zip(counts, low, high, strict=True)
    ]
    worst = min(range(len(levels)), key=lambda i: levels[i].log_pvalue)
    rate = counts[worst] / n
    nearest = min(max(rate, low[worst]), high[worst])
    return TestResult(
        name=name,
        statistic=float(rate - nearest),
        log_pvalue=min(0.0, levels[worst].log_pvalue + math.log(len(levels))),
        alpha=alpha,
        n=n,
        df=None,
        method=f"exact binomial against bounds, Bonferroni over {len(levels)} levels of tau",
        min_detectable=acceptance_min_detectable(n, low, high, alpha=alpha),
        deviation="shift of Pr(tau >= l)",
        level=worst + 1,
        direction=levels[worst].direction,
    )


def _acceptance_iv(
    tail_counts: Any, n: int, lower: Any, upper: Any
) -> tuple[Ints, int, Floats, Floats]:
    counts, n = check_counts("tail_counts", tail_counts, 1), positive_int("n", n)
    low, high = _bounds_iv(lower, upper)
    if counts.shape != low.shape:
        raise ValueError(f"tail_counts has shape {counts.shape}, expected {low.shape} as lower")
    if counts[0] > n or (np.diff(counts) > 0).any():
        raise ValueError(
            f"tail_counts {counts.tolist()} rise or exceed n = {n}, expected #{{tau >= l}}"
        )
    return counts, n, low, high


def _bounds_iv(lower: Any, upper: Any) -> tuple[Floats, Floats]:
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


def _interval_test(count: int, n: int, low: float, high: float) -> _Level:
    """Two-sided log p-value, twice the smaller tail, at its largest over [low, high].

    P(X >= count) rises and P(X <= count) falls with the probability, so the smaller of them
    is largest at an end of the interval, or is 1/2 or more inside it.
    """
    upper = log_binom_sf(count - 1, n, high)
    lower = log_binom_cdf(count, n, low)
    rate = count / n
    direction: Direction | None = "above" if rate > high else "below" if rate < low else None
    return _Level(min(0.0, math.log(2.0) + min(upper, lower)), direction)


def acceptance_min_detectable(
    n: int, lower: Any, upper: Any, *, alpha: float, power: float = 0.9
) -> float:
    """Smallest shift of any one Pr(tau >= l) out of its bounds found with this power.

    It is exact for a binomial count, and the largest over levels and over both directions;
    directions that leave [0, 1] do not count. inf if n is too small to promise a shift.

    Parameters
    ----------
    n : int
        Blocks.
    lower, upper : float64 array (gamma,)
        Bounds on Pr(tau >= l) under the null.

    Raises
    ------
    ValueError
        If n < 1, bounds are not in order within [0, 1], or alpha or power is outside (0, 1).
    """
    n, (low, high) = positive_int("n", n), _bounds_iv(lower, upper)
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    log_tail = math.log(alpha / (2 * low.size))
    # Down from a rate is up from its complement; equal ones are worked out once.
    starts = np.unique(np.concatenate([high[high < 1.0], 1.0 - low[low > 0.0]]))
    return max((_shift_up(n, float(p), log_tail, power) for p in starts), default=math.inf)


def _shift_up(n: int, p: float, log_tail: float, power: float) -> float:
    """Smallest rise of the probability above ``p`` that an upper test finds."""
    least, most = 0, n + 1  # log_binom_sf(least - 1) >= log_tail > log_binom_sf(most - 1)
    while most - least > 1:
        middle = (least + most) // 2
        if log_binom_sf(middle - 1, n, p) < log_tail:
            most = middle
        else:
            least = middle
    if most > n:
        return math.inf
    # P(X >= k) at probability x is the beta(k, n-k+1) cdf at x.
    return float(special.betaincinv(most, n - most + 1, power)) - p


def acceptance_samples(
    shift: float, lower: Any, upper: Any, *, alpha: float, power: float = 0.9
) -> int:
    """Blocks that find a shift of any one Pr(tau >= l) out of its bounds.

    Within the jitter of the binomial lattice the smallest such number.

    Raises
    ------
    ValueError
        If ``shift`` is outside (0, 1), larger than what every level leaves room for, so small
        that 2^50 blocks do not find it (below 1e-7, near which binomial tails run out of
        digits), bounds are not in order within [0, 1], or alpha or power is outside (0, 1).
    """
    shift = open_unit("shift", positive_float("shift", shift))
    low, high = _bounds_iv(lower, upper)
    room = np.concatenate([1.0 - high[high < 1.0], low[low > 0.0]])
    if room.size == 0 or shift >= room.min():
        raise ValueError(
            f"shift is {shift}, expected less than {room.min() if room.size else 0.0:.6g}, "
            "the room that the bounds leave within [0, 1] at every level"
        )

    def enough(n: int) -> bool:
        return acceptance_min_detectable(n, low, high, alpha=alpha, power=power) <= shift

    return smallest_n(enough, f"shift {shift:g}", unit="blocks")


_LEAST_ERROR = 1e-30


def rate_interval(count: Any, n: int, *, error: float = 1e-3) -> tuple[Floats, Floats]:
    """Clopper-Pearson bounds of a rate, elementwise.

    Parameters
    ----------
    count : int array (k,)
        Successes of ``n`` trials each.
    error : float
        Probability of missing the rate.

    Returns
    -------
    low, high : float64 arrays (k,)

    Raises
    ------
    ValueError
        If a count is negative or above n, n < 1, or error is outside [1e-30, 1): quantiles of
        the beta law that scipy gives for far smaller ones are wrong.
    """
    # Half a second, which no test has to wait for.
    from statsmodels.stats.proportion import proportion_confint

    counts, n = check_counts("count", count, 1), positive_int("n", n)
    if counts.size and counts.max() > n:
        raise ValueError(f"count is {counts.max()}, expected at most n = {n}")
    if open_unit("error", error) < _LEAST_ERROR:
        raise ValueError(f"error is {error:g}, expected {_LEAST_ERROR:g} or more")
    low, high = proportion_confint(counts, n, alpha=error, method="beta")
    return np.asarray(low), np.asarray(high)
