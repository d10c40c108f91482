"""Confidence intervals for means of bounded variables."""

import math

from simverify.stats._checks import open_unit, positive_int


def empirical_bernstein(
    mean: float, variance: float, n: int, *, low: float, high: float, error: float
) -> tuple[float, float]:
    """Two-sided empirical Bernstein interval of a mean, valid at every n.

    For E[tau] and its Rao-Blackwell estimates, which lie in [0, gamma]. With s = high - low
    and L = ln(4 / error), half of the error for each side, the half width is
    sqrt(2 variance L / n) + 7 s L / (3 (n - 1)).

    Parameters
    ----------
    mean, variance : float
        Sample mean and unbiased sample variance (divisor n - 1).
    n : int
        Independent observations, 2 or more.
    low, high : float
        Range that every observation lies in; the interval is clipped to it.
    error : float
        Probability of missing the mean: 1 less the confidence, which would round a small one
        away.

    Raises
    ------
    ValueError
        If n < 2, the range is empty, the mean lies outside it, the variance is negative or
        more than the range allows, or error is outside (0, 1).

    References
    ----------
    Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT
    2009, Theorem 4.
    """
    n, span = _empirical_bernstein_iv(mean, variance, n, low, high)
    log_term = math.log(4.0) - math.log(open_unit("error", error))
    half = math.sqrt(2.0 * variance * log_term / n) + 7.0 * span * log_term / (3.0 * (n - 1))
    return max(low, mean - half), min(high, mean + half)


def stratified_bernstein(
    mean: float, variance: float, n: int, *, low: float, high: float, error: float
) -> tuple[float, float]:
    """Two-sided Bernstein interval of a mean over strata, two observations in each.

    The observations X, X' of a stratum are independent and of one law; ``mean`` is that of
    all of them, and its error is made within the strata alone. With s = high - low and
    L = ln(4 / error) the half width is sqrt(variance L / n) + 4 s L / (3 n), valid
    at every n: Bernstein's inequality for the n pair means, whose mean variance is v / 2, and
    sqrt(v) <= sqrt(variance) + s sqrt(L / n), each with probability e^-L of failing. The
    latter is the lower tail of nonnegative summands [1]: (X - X')^2 / 2 has mean square at
    most s^2/2 times its mean.

    Parameters
    ----------
    mean : float
        Mean of the 2 n observations.
    variance : float
        Mean over the strata of (X - X')^2 / 2.
    n : int
        Strata, 2 or more, all of equal weight.
    low, high : float
        Range that every observation lies in; the interval is clipped to it.
    error : float
        Probability of missing the mean, as in :func:`empirical_bernstein`.

    Raises
    ------
    ValueError
        If n < 2, the range is empty, the mean lies outside it, the variance is negative or
        more than the range allows, or error is outside (0, 1).

    References
    ----------
    .. [1] Maurer, "A bound on the deviation probability for sums of non-negative random
           variables", JIPAM 4(1), 2003, theorem 1.
    """
    n, span = _empirical_bernstein_iv(mean, variance / 2.0, n, low, high)
    log_term = math.log(4.0) - math.log(open_unit("error", error))
    half = math.sqrt(variance * log_term / n) + 4.0 * span * log_term / (3.0 * n)
    return max(low, mean - half), min(high, mean + half)


def _empirical_bernstein_iv(
    mean: float, variance: float, n: int, low: float, high: float
) -> tuple[int, float]:
    n = positive_int("n", n, 2)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the range is [{low}, {high}], expected finite low < high")
    slack = 1e-9 * (high - low)  # a mean summed in floating point may overshoot the range
    if not low - slack <= mean <= high + slack:
        raise ValueError(f"mean is {mean}, expected it within the range [{low}, {high}]")
    most = (high - low) ** 2 / 4.0 * n / (n - 1)
    if not 0.0 <= variance <= most * (1.0 + 1e-9):
        raise ValueError(f"variance is {variance}, expected 0 to {most:.6g} for this range and n")
    return n, high - low
