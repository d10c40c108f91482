"""The exact test of bits with known probabilities, and its plan."""

import math

import numpy as np
from scipy import special

from simverify.stats._checks import (
    Floats,
    Ints,
    in_ball,
    open_unit,
    tv_ball,
)
from simverify.stats.results import TestResult
from simverify.stats.scores.indicators import RARE_EDGES, IndicatorSums
from simverify.stats.tails.poisson_binomial import log_upper

_NEWTON_STEPS = 8
"""Steps of Newton's method before the search for a critical number goes on by halves."""


def indicator_test(
    sums: IndicatorSums, *, alpha: float, ball: float = 0.0, name: str = "indicator"
) -> TestResult:
    """Test that bits have their probabilities: exact Poisson-binomial, two-sided.

    It serves accept bits (a bit that its probability excludes fails at once) and scores that
    are 0 or 1. ``statistic`` is the rate of hits less its expectation.

    Parameters
    ----------
    sums : IndicatorSums
        Of n bits, n fixed beforehand.
    ball : float
        TV distance by which each conditional law may be off.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1) or ball outside [0, 1).

    Notes
    -----
    The p-value is twice the smaller tail. Probabilities within a bin are replaced by their
    mean, which makes both tails heavier from 2 hits off the mean on (Gleser 1975), by 1e-4 of
    the variance at most; closer to the mean they are rounded towards the observed side. The
    tail is exact if probabilities do not depend on earlier bits; where they do, as in a
    generation, the sum is a martingale of the same variance and the tail holds to first order.

    References
    ----------
    Gleser, "On the distribution of the number of successes in independent trials", Annals of
    Probability 3 (1975) 182-188.
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    if sums.impossible and radius == 0.0:
        log_p = -math.inf
    else:
        upper = _log_at_least(sums.hits, sums.bits, sums.rare, radius)
        misses = sums.n - sums.hits
        lower = _log_at_least(misses, sums.bits[::-1], sums.rare[::-1], radius)
        log_p = min(0.0, math.log(2.0) + min(upper, lower))
    return TestResult(
        name=name,
        statistic=(sums.hits - sums.mean) / sums.n,
        log_pvalue=log_p,
        alpha=alpha,
        n=sums.n,
        df=None,
        method=in_ball("exact Poisson-binomial", radius),
        min_detectable=indicator_min_detectable(sums, alpha=alpha, ball=radius),
        deviation="shift of the rate",
    )


def _log_at_least(hits: int, bits: Ints, rare: Floats, radius: float) -> float:
    """Log of an upper bound on P(S >= hits), sharp unless hits is near the mean."""
    p = rare / np.maximum(bits, 1)
    mean = float(rare[0].sum() + bits[1].sum() - rare[1].sum())
    if hits < mean + 2.0:
        # Towards more hits: rare hits up to their bin's upper edge, rare misses to its lower.
        p = np.stack([RARE_EDGES, np.append(RARE_EDGES[1:], 0.0)])
    success, failure = np.stack([p[0], 1.0 - p[1]]), np.stack([1.0 - p[0], p[1]])
    if radius > 0.0:
        success = np.minimum(success + radius, 1.0)
        failure = 1.0 - success
    return log_upper(hits, success.ravel(), failure.ravel(), bits.ravel().astype(np.float64))


def indicator_min_detectable(
    sums: IndicatorSums, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Every possible shift of the rate of at least this size is found with this power.

    ``sums`` stands for its probabilities alone; what was hit does not matter. inf if no shift
    that the probabilities leave room for is promised.

    Raises
    ------
    ValueError
        If alpha or power is outside (0, 1) or ball outside [0, 1).
    """
    alpha, power, radius = open_unit("alpha", alpha), open_unit("power", power), tv_ball(ball)
    z, deviation = float(special.ndtri(power)), math.sqrt(sums.variance)
    far = -float(special.ndtri(alpha / 2.0))
    steep = far / deviation if deviation > 0.0 else math.inf
    sides = (
        (sums.mean, sums.bits, sums.rare),
        (sums.n - sums.mean, sums.bits[::-1], sums.rare[::-1]),
    )
    found = []
    for mean, bits, rare in sides:
        likely = mean + sums.n * radius + far * deviation
        critical = _critical(mean, bits, rare, math.log(alpha / 2.0), radius, likely, steep)
        # A shift y adds no more than y to the variance: y - z sqrt(variance + y) = off.
        off = critical - mean
        root = (z + math.sqrt(z * z + 4.0 * (off + sums.variance))) / 2.0
        shift = root * root - sums.variance
        if critical <= sums.n and shift <= sums.n - mean:
            found.append(shift / sums.n)
    return max(found, default=math.inf)


def _critical(
    mean: float,
    bits: Ints,
    rare: Floats,
    log_tail: float,
    radius: float,
    likely: float,
    steep: float,
) -> int:
    """Fewest hits whose upper tail is below ``log_tail``, n + 1 if there are none.

    The search starts at ``likely``, where the log tail falls by about ``steep`` a hit.
    """
    least, most = math.floor(mean), int(bits.sum()) + 1
    middle, steps = math.ceil(likely), 0
    while most - least > 1:
        if steps == _NEWTON_STEPS:
            middle = (least + most) // 2
        else:
            steps += 1
        middle = min(max(middle, least + 1), most - 1)
        gap = _log_at_least(middle, bits, rare, radius) - log_tail
        least, most = (least, middle) if gap < 0.0 else (middle, most)
        middle = math.ceil(max(0.0, middle + gap / steep))
    return most
