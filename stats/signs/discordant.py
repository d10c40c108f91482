"""What one of a pair has and the other has not: sign tests of many such things at once."""

import math
from typing import Any

import numpy as np

from simverify.stats._checks import counts as check_counts
from simverify.stats._checks import open_unit
from simverify.stats.results import TestResult
from simverify.stats.tails.log_tails import log_binom_sf


def discordant_test(first: Any, second: Any, *, n: int, alpha: float, name: str) -> TestResult:
    """Test that pairs may be swapped by things that one of a pair alone has.

    Given how many pairs have a thing once, either side has it alone with chance 1/2: the exact
    two-sided sign test. Things that too few pairs have to reject at all cost nothing, since their
    number of pairs knows no side (Tarone); the smallest p-value times the number of the others
    is the p-value. ``statistic`` is the difference of the thing it belongs to.

    Parameters
    ----------
    first, second : int array (F,)
        Pairs of which the first alone has a thing, and the second alone.
    n : int
        Pairs in all.

    Raises
    ------
    ValueError
        If the shapes differ, a count is negative, there is nothing, or alpha is outside (0, 1).

    References
    ----------
    .. [1] Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990) 515-522.
    """
    alpha = open_unit("alpha", alpha)
    a, b = check_counts("first", first, 1), check_counts("second", second, 1)
    if a.shape != b.shape or not a.size:
        raise ValueError(f"first has shape {a.shape}, second {b.shape}: expected (F,), F >= 1")
    either = a + b
    tried, least = _testable(either, alpha)
    worst, log_p = 0, 0.0
    for i in np.flatnonzero(either >= least):
        own = math.log(2.0) + log_binom_sf(int(max(a[i], b[i])) - 1, int(either[i]), 0.5)
        if own < log_p:
            worst, log_p = int(i), own
    return TestResult(
        name=name,
        statistic=float(a[worst] - b[worst]),
        log_pvalue=min(0.0, log_p + math.log(max(tried, 1))),
        alpha=alpha,
        n=n,
        df=None,
        method=f"exact sign test, the smallest of {tried} p-values times their number",
        min_detectable=math.inf,
        deviation="rate of one prefix",
    )


def _testable(either: Any, alpha: float) -> tuple[int, int]:
    """Return how many things can be told apart, and the pairs that each of them has at least.

    The smallest k such that the things whose least possible p-value is alpha / k or less are k at
    most.
    """
    logs = np.minimum(0.0, (1.0 - np.sort(either)[::-1]) * math.log(2.0))
    for k in range(1, len(logs) + 1):
        able = int((logs <= math.log(alpha / k)).sum())
        if able <= k:
            return able, 1 + math.ceil(math.log2(k / alpha) - 1e-12)
    return len(logs), 1
