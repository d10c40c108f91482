"""Pairs that differ alike: each pair's difference against those before it, by a kernel."""

import math
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Floats, open_unit
from simverify.stats.results import TestResult
from simverify.stats.signs.directions import _log_cosh

SIZES = (3.0, 5.0, 7.0, 10.0, 15.0, 25.0)
"""Standardised sums that are bet on."""

_ORDERS = 8


def agreement_test(grams: Any, *, alpha: float, name: str, seed: int = 0) -> TestResult:
    """Test that pairs may be swapped by whether they differ in the same direction.

    The inner product of two pairs' differences, k(a, a') + k(b, b') - k(a, b') - k(b, a'), changes
    its sign when either is swapped. The sum over pairs of pairs is what a kernel two-sample
    statistic estimates. Pair after pair, the sum of a pair's products with those before is a
    number whose sign is fair under the null, so that exp(l g) / cosh(l g) has expectation 1; the
    bets l are set by the squared products, which know no sign. The mean over bets and over some
    orders of the pairs is an e-value, and its inverse the p-value, at any level.

    Parameters
    ----------
    grams : sequence of float64 arrays (n_k, n_k)
        Symmetric inner products of the differences of pairs that may agree, such as those of
        one prompt; the diagonal is not looked at.
    seed : int
        Of the orders.

    Raises
    ------
    ValueError
        If there is no such array, one is not square or not finite, or alpha is outside (0, 1).

    References
    ----------
    .. [1] Gretton et al., "A kernel two-sample test", JMLR 13 (2012) 723-773.
    .. [2] Shekhar and Ramdas, "Nonparametric two-sample testing by betting", IEEE Trans. Inf.
       Theory 70 (2024) 1178-1203.
    """
    alpha, blocks = open_unit("alpha", alpha), _grams_iv(grams)
    variance = sum(float((np.tril(own, -1) ** 2).sum()) for own in blocks)
    rng = np.random.Generator(np.random.Philox(key=seed))
    logs = []
    for _ in range(_ORDERS):
        before = np.concatenate([_sums_before(own, rng.permutation(len(own))) for own in blocks])
        for size in SIZES:
            bet = size / math.sqrt(variance) if variance > 0.0 else 0.0
            logs.append(float((bet * before - _log_cosh(bet * before)).sum()))
    log_evalue = float(special.logsumexp(logs)) - math.log(len(logs))
    return TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sum(map(len, blocks)),
        df=None,
        method=f"e-value of swaps, mean over {len(SIZES)} bets and {_ORDERS} orders",
        min_detectable=math.inf,
        deviation="any that two pairs show alike",
    )


def _sums_before(gram: Floats, order: Any) -> Floats:
    return np.asarray(np.tril(gram[np.ix_(order, order)], -1).sum(axis=1), dtype=np.float64)


def _grams_iv(grams: Any) -> list[Floats]:
    blocks = [np.asarray(own, dtype=np.float64) for own in grams]
    if not blocks:
        raise ValueError("grams are none: expected one or more")
    for own in blocks:
        if own.ndim != 2 or own.shape[0] != own.shape[1] or not own.size:
            raise ValueError(f"a gram has shape {own.shape}: expected (n, n), n 1 or more")
        if not np.isfinite(own).all():
            raise ValueError("a gram holds NaN or infinity: expected finite numbers")
    return blocks
