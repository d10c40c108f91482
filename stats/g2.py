"""The G2 statistic with its null moments: its test, and what it detects.

A shifted gamma law with the statistic's first three cumulants gives the tail. Statistics of
independent rows and slots add up, and so do their cumulants and degrees of freedom.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from simverify.stats._checks import open_unit, positive_float, positive_int
from simverify.stats.cumulants import MIN_EXPECTED
from simverify.stats.rare import RareTokens
from simverify.stats.results import TestResult
from simverify.stats.tails import log_binom_cdf, log_binom_sf, log_gamma_sf


@dataclass(frozen=True)
class TwoCells:
    """A binomial row: ``count`` of ``total`` in a cell of this ``probability``."""

    count: int
    total: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class G2:
    """A G2 statistic with its null moments; G2s of different slots add up.

    Attributes
    ----------
    statistic : float
        Sum over tested rows of 2 sum O ln(O/E).
    cumulants : tuple of float
        First three cumulants of the statistic under the null, given the row totals.
    df : int
        Pooled cells less one, summed over tested rows; 0 if no row could be tested.
    n : int
        All tokens counted, those of untested rows included.
    unresolved : float
        Expected number of tokens in cells that were pooled with others and in untested
        rows, but for rows with a single possible token: there the support test sees all. By
        at most ``unresolved / n`` is the TV distance that the G2 sees smaller than the mean
        one-token TV distance.
    two_cells : TwoCells or None
        The row behind df = 1, whose test is an exact binomial one.
    rare : RareTokens or None
        Tokens of one slot that :func:`rare_test` judges; all that is expected in their pools
        is in ``unresolved``, which that test makes smaller. A sum of slots has none.
    """

    statistic: float
    cumulants: tuple[float, float, float]
    df: int
    n: int
    unresolved: float
    two_cells: TwoCells | None = None
    rare: RareTokens | None = None

    def __add__(self, other: "G2") -> "G2":
        first, second, third = (a + b for a, b in zip(self.cumulants, other.cumulants, strict=True))
        df = self.df + other.df
        return G2(
            statistic=self.statistic + other.statistic,
            cumulants=(first, second, third),
            df=df,
            n=self.n + other.n,
            unresolved=self.unresolved + other.unresolved,
            two_cells=(self.two_cells or other.two_cells) if df == 1 else None,
        )


def g2_test(g2: G2, *, alpha: float, name: str = "transitions") -> TestResult:
    """Test a :class:`G2`, of one slot or summed over slots.

    The tail is a shifted gamma law with the statistic's three cumulants; with df = 1 the
    exact binomial tail of the same statistic. For a single row of three or four cells that
    barely expect 10 counts the true size jumps between .5 and 2 times alpha, from atom to
    atom of the lattice; sums of rows and larger counts smooth that out.

    ``min_detectable`` is a mean one-token TV distance over all ``n`` tokens:
    :func:`g2_min_detectable` plus ``unresolved / n``.

    Raises
    ------
    ValueError
        If df is 0 or alpha is outside (0, 1).
    """
    alpha = open_unit("alpha", alpha)
    if g2.df == 0:
        raise ValueError(
            f"g2 of {g2.n} tokens has df 0, expected a row with two cells of expected count "
            f"{MIN_EXPECTED:g} or more: count more tokens or skip this slot"
        )
    if g2.two_cells is not None:
        log_p, law = _log_binomial_tail(g2.two_cells), "exact binomial"
    else:
        log_p, law = _log_gamma_tail(g2), "three-moment gamma"
    detectable = g2_min_detectable(g2.df, g2.n, alpha=alpha) + g2.unresolved / g2.n
    return TestResult(
        name=name,
        statistic=g2.statistic,
        log_pvalue=log_p,
        alpha=alpha,
        n=g2.n,
        df=g2.df,
        method=f"G2, {law}",
        min_detectable=detectable if detectable < 1.0 else math.inf,
        deviation="mean one-token TV",
    )


def _log_gamma_tail(g2: G2) -> float:
    first, second, third = g2.cumulants
    shape = 4.0 * second**3 / third**2
    scale = third / (2.0 * second)
    shift = first - shape * scale
    return log_gamma_sf(max(g2.statistic - shift, 0.0) / scale, shape)


def _log_binomial_tail(cells: TwoCells) -> float:
    """Log of P(G2 >= observed) for one binomial row."""
    n, p = cells.total, cells.probability

    def deviance(k: int) -> float:
        return float(special.kl_div(k, n * p) + special.kl_div(n - k, n * (1.0 - p)))

    # Equal values on the two sides of the mean must not be split by rounding.
    level = deviance(cells.count) * (1.0 - 1e-12)
    centre = math.floor(n * p)
    low = _last_true(lambda k: deviance(centre - k) < level, centre)
    high = _last_true(lambda k: deviance(centre + 1 + k) < level, n - centre - 1)
    lower = log_binom_cdf(centre - low - 1, n, p)
    upper = log_binom_sf(centre + 1 + high, n, p)
    return min(0.0, float(np.logaddexp(lower, upper)))


def _last_true(holds: Callable[[int], bool], largest: int) -> int:
    """Largest k in 0..largest with ``holds`` true up to there, -1 if there is none."""
    low, high = -1, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def g2_min_detectable(df: int, n: int, *, alpha: float, power: float = 0.9) -> float:
    """Smallest mean one-token TV distance found with this power, inf if there is none.

    The distance is between the pooled laws. The noncentrality of G2 is 2 n times the mean
    Kullback-Leibler divergence, at least 4 n TV^2 by Pinsker and Jensen, however the
    deviation is spread over tokens, contexts and slots.

    Raises
    ------
    ValueError
        If df or n is below 1, or alpha or power outside (0, 1).
    """
    df, n = positive_int("df", df), positive_int("n", n)
    tv = math.sqrt(_noncentrality(df, alpha, power) / (4.0 * n))
    return tv if tv <= 1.0 else math.inf


def g2_samples(tv: float, df: int, *, alpha: float, power: float = 0.9) -> int:
    """Tokens that find a mean one-token TV distance of ``tv`` between the pooled laws.

    Raises
    ------
    ValueError
        If tv or df is not positive, or alpha or power outside (0, 1).
    """
    tv, df = positive_float("tv", tv), positive_int("df", df)
    return math.ceil(_noncentrality(df, alpha, power) / (4.0 * tv * tv))


def _noncentrality(df: int, alpha: float, power: float) -> float:
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    critical = float(stats.chi2.isf(alpha, df))

    def missing(noncentrality: float) -> float:
        return float(stats.ncx2.sf(critical, df, noncentrality)) - power

    if missing(0.0) >= 0.0:
        return 0.0
    high = 1.0
    while missing(high) < 0.0:
        high *= 2.0
    return float(optimize.brentq(missing, 0.0, high, rtol=1e-10))
