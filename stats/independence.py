"""Are two emissions independent? Tests of pairs: calls in a row, or rows of one batch.

Each emission follows the target, and the members of a pair are independent under the null;
what a pair shares (a stream, a seed, a buffer) shows in their joint law alone.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.stats._checks import Floats, Ints, open_unit, positive_int
from simverify.stats.binomial import acceptance_test
from simverify.stats.g2 import G2
from simverify.stats.results import TestResult
from simverify.stats.transitions import transition_g2

MIN_PAIRS = 4000
"""Below, the normal tail of the correlation is not trusted."""


def disjoint_pairs(n: int, lag: int, phase: int) -> Ints:
    """Indices i of the pairs (i, i + lag) within 0..n-1 that share no member.

    ``phase`` 0 or 1 takes one half of all pairs or, but for those at the ends, the other:
    together they meet every pair of neighbours.

    Raises
    ------
    ValueError
        If n or lag is below 1 or phase is neither 0 nor 1.
    """
    n, lag = positive_int("n", n), positive_int("lag", lag)
    if phase not in (0, 1):
        raise ValueError(f"phase is {phase}, expected 0 or 1")
    index = np.arange(max(n - lag, 0), dtype=np.int64)
    pairs: Ints = index[index // lag % 2 == phase]
    return pairs


def pair_g2(first: Any, second: Any, row: Any) -> G2:
    """G2 of the table of pairs of tokens, against the product of their known law.

    Parameters
    ----------
    first, second : int array (n,)
        Tokens of the members of each pair; no member in two pairs, n fixed beforehand.
    row : float64 array (V,)
        Law of either member; sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If shapes differ, there are no pairs, a token is outside 0..V-1 or the row is no law.
    """
    law = np.asarray(row, dtype=np.float64)
    a, b = _pairs_iv(first, second)
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= law.size:
        raise ValueError(f"tokens span {min(a.min(), b.min())}..{max(a.max(), b.max())}, "
                         f"expected 0..{law.size - 1}")  # fmt: skip
    joint = np.outer(law, law).ravel()
    counts = np.bincount(a * law.size + b, minlength=joint.size)
    return transition_g2(counts[None], joint[None])


def pit_correlation(
    first: Any, second: Any, *, alpha: float, name: str = "correlation"
) -> TestResult:
    """Test that the randomised PITs of paired emissions are uncorrelated.

    Pairs may overlap as in a lag: given the earlier PITs, each product of centred PITs has
    mean zero, and the products are uncorrelated with variance 1/144. The fourth cumulant of
    their standardised sum is about 5/n, so that the normal tail is right to a tenth at six
    standard deviations from ``MIN_PAIRS`` on.

    Parameters
    ----------
    first, second : float64 array (n,)
        PITs in [0, 1] of the members of each pair; n fixed beforehand.

    Returns
    -------
    TestResult
        ``statistic`` is the correlation; ``min_detectable`` that of a bivariate law.

    Raises
    ------
    ValueError
        If shapes differ, there are fewer than ``MIN_PAIRS`` pairs, a PIT is outside [0, 1]
        or alpha is outside (0, 1).
    """
    u, v, alpha = _pit_correlation_iv(first, second, alpha)
    n = u.size
    correlation = 12.0 * float(np.mean((u - 0.5) * (v - 0.5)))
    z = abs(correlation) * math.sqrt(n)
    log_p = math.log(2.0) + float(special.log_ndtr(-z))
    detectable = float(-special.ndtri(alpha / 2.0) + special.ndtri(0.9)) / math.sqrt(n)
    return TestResult(
        name=name,
        statistic=correlation,
        log_pvalue=min(0.0, log_p),
        alpha=alpha,
        n=n,
        df=None,
        method="correlation of randomised PITs, normal law",
        min_detectable=detectable if detectable < 1.0 else math.inf,
        deviation="correlation of PITs",
    )


def _pairs_iv(first: Any, second: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"first, second have shapes {a.shape}, {b.shape}, expected (n,), n >= 1")
    return a, b


def _pit_correlation_iv(first: Any, second: Any, alpha: float) -> tuple[Floats, Floats, float]:
    u, v = _pairs_iv(first, second)
    if u.size < MIN_PAIRS:
        raise ValueError(f"there are {u.size} pairs, expected {MIN_PAIRS} or more")
    if not (min(u.min(), v.min()) >= 0.0 and max(u.max(), v.max()) <= 1.0):
        raise ValueError("a PIT is NaN or outside [0, 1], expected F(x-) + v P(x)")
    return u.astype(np.float64), v.astype(np.float64), open_unit("alpha", alpha)


def duplicates_test(
    count: int, n: int, probability: float, *, alpha: float, name: str = "duplicates"
) -> TestResult:
    """Test that not too many pairs are equal: exact binomial, against excess alone.

    Parameters
    ----------
    count, n : int
        Equal pairs of ``n`` disjoint ones, n fixed beforehand.
    probability : float
        That two independent emissions are equal: the sum of the squares of their law.

    Raises
    ------
    ValueError
        If count is outside 0..n, n < 1, probability outside [0, 1] or alpha outside (0, 1).
    """
    test = acceptance_test([count], n, [0.0], [min(probability, 1.0)], alpha=alpha, name=name)
    return dataclasses.replace(
        test, method="exact binomial", deviation="excess of equal pairs", level=None
    )
