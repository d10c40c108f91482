"""Whether mean scores drift as some known cause makes them drift, and no further."""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize, stats

from simverify.stats._checks import Floats, open_unit, positive_float, positive_int
from simverify.stats.results import TestResult


def drift_test(
    observed: Any,
    variances: Any,
    expected: Any,
    errors: Any,
    *,
    n: int,
    alpha: float,
    most: float = 2.0,
    name: str = "drift",
) -> TestResult:
    """Test that group means are a multiple c of what a cause was measured to make, abs(c) <= most.

    The statistic is the least sum over groups of (observed - c expected)^2 / (variance + c^2
    error) over all such c. At the true c it has the chi-square law with a degree of freedom a
    group, for means of many terms, so that its least value is below that: the size is alpha at
    most. A cause whose effects cancel in the mean has an ``expected`` of nearly 0, and then a
    mean that is off at all is not its doing.

    Parameters
    ----------
    observed, variances : float64 array (groups,)
        Mean of the centred scores of each group of tokens, and the variance of that mean.
    expected, errors : float64 array (groups,)
        Mean by which the cause moved the scores of that group where it was tried, and the
        variance of that mean.
    n : int
        Tokens behind ``observed``.
    most : float
        Largest multiple of the measured effect that still is that cause.

    Returns
    -------
    TestResult
        ``min_detectable`` is the mean, over the groups together, that is found with power .9
        where the cause makes none.

    Raises
    ------
    ValueError
        If shapes differ, there is no group or no token, a number is not finite, a variance is not
        positive, an error is negative, most is not positive or alpha is outside (0, 1).

    References
    ----------
    Cochran, "The chi-square test of goodness of fit", Annals of Mathematical Statistics 23
    (1952) 315-345, for the least chi-square over a parameter.
    """
    alpha, bound = open_unit("alpha", alpha), positive_float("most", most)
    n = positive_int("n", n)
    seen, spread, due, doubt = (
        np.atleast_1d(np.asarray(a, dtype=np.float64))
        for a in (observed, variances, expected, errors)
    )
    if not (
        seen.ndim == 1 and seen.size and seen.shape == spread.shape == due.shape == doubt.shape
    ):
        raise ValueError(f"observed has shape {seen.shape}, expected (groups,) of all four")
    if not all(np.isfinite(a).all() for a in (seen, spread, due, doubt)):
        raise ValueError("a mean or a variance is NaN or infinite: expected finite ones")
    if not ((spread > 0.0).all() and (doubt >= 0.0).all()):
        raise ValueError("a variance is not positive, or an error negative: expected neither")

    def misfit(c: Any) -> Any:
        """Misfit of one multiple, or of each of an array (multiples, 1)."""
        return ((seen - c * due) ** 2 / (spread + c * c * doubt)).sum(axis=-1)

    statistic = _least(misfit, bound)
    return TestResult(
        name=name,
        statistic=statistic,
        log_pvalue=float(stats.chi2.logsf(statistic, seen.size)),
        alpha=alpha,
        n=n,
        df=seen.size,
        method=f"least chi-square over multiples up to {bound:g} of the measured drift",
        min_detectable=_detectable(spread, alpha),
        deviation="shift of the mean score",
    )


def _least(misfit: Any, bound: float) -> float:
    """Least value on [-bound, bound]: on a grid, then around its best point."""
    grid = np.linspace(-bound, bound, 41)
    tried = misfit(grid[:, None])
    best = int(np.argmin(tried))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 40)]
    found = optimize.minimize_scalar(misfit, bounds=(low, high), method="bounded")
    return min(float(found.fun), float(tried[best]))


def _detectable(spread: Floats, alpha: float) -> float:
    """Common mean of all groups found with power .9: noncentral chi-square."""
    return float(np.sqrt(_noncentrality(spread.size, alpha) / (1.0 / spread).sum()))


@lru_cache(maxsize=64)
def _noncentrality(df: int, alpha: float) -> float:
    """Noncentrality of a chi-square that is found with power .9; the same for every sample."""
    critical = stats.chi2.isf(alpha, df)
    found: float = optimize.brentq(lambda x: stats.ncx2.sf(critical, df, x) - 0.9, 1e-6, 1e4)
    return found
