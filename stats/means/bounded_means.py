"""Means of bounded variables against their exact values, by the empirical Bernstein bound."""

import math
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, Ints, open_unit, positive_int
from simverify.stats._checks import counts as check_counts
from simverify.stats.results import Direction, TestResult


def bounded_means_test(
    sums: Any, squares: Any, n: int, expected: Any, high: Any, *, alpha: float, name: str
) -> TestResult:
    """Test means of whole numbers in [0, high] against what they should be.

    Each mean's two-sided p-value is the smallest error at which its empirical
    Bernstein interval (:func:`empirical_bernstein`) excludes the expected value; the smallest
    of them times their number is the p-value. ``level`` (from 1) and ``direction`` tell which
    mean is furthest off; ``statistic`` is that mean less its expectation. ``min_detectable``
    is a shift of the mean whose bound is widest, for the variance seen here.

    Parameters
    ----------
    sums, squares : int array (k,)
        Sums over ``n`` independent trials of the k variables and of their squares.
    n : int
        Trials, 2 or more.
    expected : float64 array (k,)
        Exact means under the null.
    high : int array (k,)
        Largest value that each variable can take.

    Raises
    ------
    ValueError
        If shapes differ, there is nothing to test, n < 2, sums leave [0, n high], squares do
        not go with them, or alpha is outside (0, 1).
    """
    totals, second, n, means, most = _bounded_means_iv(sums, squares, n, expected, high)
    alpha = open_unit("alpha", alpha)
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
    direction: Direction | None = None
    if shifts[worst] != 0.0:
        direction = "above" if shifts[worst] > 0.0 else "below"
    return TestResult(
        name=name,
        statistic=float(shifts[worst]),
        log_pvalue=min(0.0, float(logs[worst]) + math.log(k)),
        alpha=alpha,
        n=n,
        df=None,
        method=f"empirical Bernstein, Bonferroni over {k} means",
        min_detectable=float((critical + slack).max()),
        deviation="shift of a mean",
        level=worst + 1,
        direction=direction,
    )


def _bounded_means_iv(
    sums: Any, squares: Any, n: int, expected: Any, high: Any
) -> tuple[Ints, Ints, int, Floats, Ints]:
    totals, second = check_counts("sums", sums, 1), check_counts("squares", squares, 1)
    most, n = check_counts("high", high, 1), positive_int("n", n, 2)
    means = np.asarray(expected, dtype=np.float64)
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
    return totals, second, n, means, most
