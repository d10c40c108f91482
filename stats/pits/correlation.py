"""Correlation of paired emissions, from the randomised PITs of a lag, streamed as three sums."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import in_ball, open_unit, positive_float, positive_int, tv_ball
from simverify.stats._search import smallest_n
from simverify.stats.results import TestResult
from simverify.stats.tails.log_tails import log_normal_sf

MIN_PAIRS = 4000
"""Below, the normal tail of the correlation is not trusted."""

_WIDENED = 1.1
"""By what the normal tail is multiplied, so that it is not too light down to 1e-9."""


@dataclass(frozen=True, kw_only=True)
class PairSums:
    """Sums over pairs of PITs (u, v); those of disjoint samples add up.

    ``products`` is the sum of (u - 1/2)(v - 1/2), ``spreads`` that of abs(u - 1/2).
    """

    n: int
    products: float
    spreads: float

    def __add__(self, other: "PairSums") -> "PairSums":
        return PairSums(
            n=self.n + other.n,
            products=self.products + other.products,
            spreads=self.spreads + other.spreads,
        )


def pair_sums(first: Any, second: Any) -> PairSums:
    """Sum up pairs of PITs: tokens at a lag in a row, or rows of a batch.

    Parameters
    ----------
    first, second : float64 array (n,)
        PITs in [0, 1]; ``second`` is emitted after ``first``, or by another row. Pairs may
        overlap, as those of a lag do.

    Raises
    ------
    ValueError
        If shapes differ, n is 0 or a PIT is NaN or outside [0, 1].
    """
    u, v = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if u.ndim != 1 or u.shape != v.shape or u.size == 0:
        raise ValueError(f"first, second have shapes {u.shape}, {v.shape}, expected (n,), n >= 1")
    if not all(side.min() >= 0.0 and side.max() <= 1.0 for side in (u, v)):
        raise ValueError("a PIT is NaN or outside [0, 1], expected F(x-) + v P(x)")
    return PairSums(
        n=u.size,
        products=float(((u - 0.5) * (v - 0.5)).sum()),
        spreads=float(np.abs(u - 0.5).sum()),
    )


def pit_correlation(
    sums: PairSums, *, alpha: float, ball: float = 0.0, name: str = "correlation"
) -> TestResult:
    """Test that the randomised PITs of paired emissions are uncorrelated.

    Given the earlier PITs each product of centred PITs has mean zero, so that overlapping
    pairs do no harm, and variance 1/144 on average. At a lag their sum has a tail heavier
    than the normal one, by a twentieth at six standard deviations of ``MIN_PAIRS`` pairs; a
    tenth is added.

    Parameters
    ----------
    sums : PairSums
        Of n pairs, n fixed beforehand.
    ball : float
        TV distance by which each conditional law may be off: a product's mean may then be
        that times abs(u - 1/2).

    Returns
    -------
    TestResult
        ``statistic`` is the correlation; ``min_detectable`` that of a bivariate law.

    Raises
    ------
    ValueError
        If there are fewer than ``MIN_PAIRS`` pairs, alpha is outside (0, 1) or ball outside
        [0, 1).
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    n = _pairs_iv(sums.n)
    correlation = 12.0 * sums.products / n
    excess = abs(correlation) - 12.0 * radius * sums.spreads / n
    z = max(excess, 0.0) * math.sqrt(n / _variance(radius))
    return TestResult(
        name=name,
        statistic=correlation,
        log_pvalue=min(0.0, math.log(2.0 * _WIDENED) + log_normal_sf(z)),
        alpha=alpha,
        n=n,
        df=None,
        method=in_ball("correlation of randomised PITs, normal law", radius),
        min_detectable=correlation_min_detectable(n, alpha=alpha, ball=radius),
        deviation="correlation of PITs",
    )


def _pairs_iv(n: int) -> int:
    if n < MIN_PAIRS:
        raise ValueError(f"there are {n} pairs, expected {MIN_PAIRS} or more")
    return positive_int("n", n)


def _variance(radius: float) -> float:
    """Largest conditional variance of a PIT within the ball, in units of 1/12."""
    return 1.0 + 3.0 * radius


def correlation_min_detectable(
    n: int, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Smallest correlation of PITs that ``n`` pairs find with this power, inf if above 1.

    Raises
    ------
    ValueError
        If n is below ``MIN_PAIRS``, alpha or power outside (0, 1) or ball outside [0, 1).
    """
    n, radius = _pairs_iv(n), tv_ball(ball)
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    z = float(special.ndtri(power) - special.ndtri(alpha / (2.0 * _WIDENED)))
    # A PIT lies 1/4 from 1/2 on average, and its law's ball adds half its radius at most.
    drift = 12.0 * radius * (0.25 + radius / 2.0)
    found = drift + z * math.sqrt(_variance(radius) / n)
    return found if found < 1.0 else math.inf


def correlation_samples(
    correlation: float, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> int:
    """Pairs that find this correlation of PITs; ``MIN_PAIRS`` at least.

    Raises
    ------
    ValueError
        If ``correlation`` is not positive, no number of pairs finds it, alpha or power is
        outside (0, 1) or ball outside [0, 1).
    """
    correlation = positive_float("correlation", correlation)

    def enough(n: int) -> bool:
        pairs = max(n, MIN_PAIRS)
        found = correlation_min_detectable(pairs, alpha=alpha, power=power, ball=ball)
        return found <= correlation

    return max(smallest_n(enough, f"correlation {correlation:g}"), MIN_PAIRS)
