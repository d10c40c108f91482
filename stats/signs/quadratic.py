"""Sums of squares of differences within pairs: chi-squares whose tail holds whatever the counts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, sparse

from simverify.stats._checks import Floats, open_unit
from simverify.stats.results import TestResult

_Z_POWER = 1.2816
_CLOSEST = 1.0 - 1e-12


def quadratic_test(
    blocks: Sequence[Any], *, alpha: float, name: str, deviation: str = "any that pairs share"
) -> TestResult:
    r"""Test that pairs may be swapped by the sum over features of their squared differences.

    With v the rows of a block, a pair's (weighted) differences, and s the signs of its swaps, the
    statistic is the sum over blocks of :math:`|\sum_t s_t v_t|^2`. Weights 1 over a count make it
    the chi-square of two samples. A positive quadratic form in signs has no larger exponential
    moment than the same form in standard normals, which is known from its eigenvalues: Chernoff's
    bound of it is the p-value, at any number of pairs and at any level. ``statistic`` is the sum
    less its mean over all swaps, over its spread.

    Parameters
    ----------
    blocks : sequence of arrays or sparse arrays (n_k, F_k)
        Differences of the pairs that share features, finite. Weights may depend on both answers
        of all pairs, but not on which of a pair is the first.

    Raises
    ------
    ValueError
        If there is no block, an entry is not finite, or alpha is outside (0, 1).

    References
    ----------
    .. [1] Hanson and Wright, "A bound on tail probabilities for quadratic forms in independent
       random variables", Annals of Mathematical Statistics 42 (1971) 1079-1083.
    .. [2] Gretton et al., "A kernel two-sample test", JMLR 13 (2012) 723-773.
    """
    alpha, own = open_unit("alpha", alpha), _blocks_iv(blocks)
    # Tail and statistic know no scale, and squares of any scale are finite so.
    scale = max(float(abs(v).max()) for v in own) or 1.0
    own = [v / scale for v in own]
    values = quadratic_spread(own)
    total = math.fsum(float((np.asarray(v.sum(axis=0)).ravel() ** 2).sum()) for v in own)
    spread = math.sqrt(2.0 * float((values**2).sum()))
    return TestResult(
        name=name,
        statistic=(total - float(values.sum())) / spread if spread > 0.0 else 0.0,
        log_pvalue=quadratic_log_tail(total, values),
        alpha=alpha,
        n=sum(v.shape[0] for v in own),
        df=len(values),
        method="sum of squares over all swaps, Chernoff bound by its eigenvalues",
        min_detectable=math.inf,
        deviation=deviation,
    )


def quadratic_spread(blocks: Sequence[Any]) -> Floats:
    """Return the eigenvalues of a sum of squares, float64, each 0 or more: no sign is in them.

    Parameters
    ----------
    blocks : sequence of arrays or sparse arrays (n_k, F_k)
        As :func:`quadratic_test` takes them.

    Raises
    ------
    ValueError
        If there is no block, or an entry is not finite.
    """
    found = []
    for v in _blocks_iv(blocks):
        gram = v @ v.T if v.shape[0] < v.shape[1] else v.T @ v
        dense = gram.toarray() if sparse.issparse(gram) else gram
        found.append(np.maximum(np.linalg.eigvalsh(np.asarray(dense, dtype=np.float64)), 0.0))
    values = np.concatenate(found)
    kept: Floats = values[values > 1e-12 * values.max(initial=0.0)]
    return kept


def quadratic_log_tail(total: float, eigenvalues: Floats) -> float:
    """Return the log of a bound on the chance that swaps alone make a sum of squares so large.

    Every point of Chernoff's curve is a bound: that the lowest is found only nearly costs power.
    """
    if total <= float(eigenvalues.sum()):
        return 0.0
    if not len(eigenvalues):
        return 0.0
    largest = float(eigenvalues.max())
    parts = eigenvalues / largest

    def curve(u: float) -> float:
        return float(-0.5 * np.log1p(-u * parts).sum() - u * total / (2.0 * largest))

    found = optimize.minimize_scalar(
        curve, bounds=(0.0, _CLOSEST), method="bounded", options={"xatol": 1e-9}
    )
    return min(0.0, float(found.fun))


def needed_excess(alpha: float, eigenvalues: Floats) -> float:
    """Return how much larger than its mean over swaps a sum is, that is found with power .9.

    The threshold is exact; the spread of what is off is that of normal sums.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1).
    """
    log_alpha = math.log(open_unit("alpha", alpha))
    if not len(eigenvalues):
        return math.inf
    mean, square = float(eigenvalues.sum()), 2.0 * float((eigenvalues**2).sum())
    largest = float(eigenvalues.max())
    high = mean + 4.0 * (math.sqrt(square * -log_alpha) - largest * log_alpha)
    due = optimize.brentq(
        lambda total: quadratic_log_tail(total, eigenvalues) - log_alpha, mean, high, rtol=1e-6
    ) - mean  # fmt: skip
    excess = due
    for _ in range(100):
        excess = due + _Z_POWER * math.sqrt(square + 4.0 * largest * excess)
    return float(excess)


def _blocks_iv(blocks: Sequence[Any]) -> list[Any]:
    found = [
        sparse.csr_array(own, dtype=np.float64) if sparse.issparse(own)
        else np.asarray(own, dtype=np.float64)
        for own in blocks
    ]  # fmt: skip
    if not found:
        raise ValueError("blocks are none: expected one or more")
    for own in found:
        if own.ndim != 2 or not own.shape[0] or not own.shape[1]:
            raise ValueError(f"a block has shape {own.shape}: expected (n, F), n and F 1 or more")
        if not np.isfinite(own.data if sparse.issparse(own) else own).all():
            raise ValueError("a block holds NaN or infinity: expected finite numbers")
    return found
