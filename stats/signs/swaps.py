"""Permutations of whole answers: pairs swapped at random, until enough is known."""

import math
from typing import Any

import numpy as np

from simverify.stats._checks import open_unit
from simverify.stats.results import TestResult
from simverify.stats.signs.chaos import _grams_iv

MOST_SWAPS = 50_000_000
"""Permutations at most: a level that takes more is not reached."""

_ENOUGH = 20
"""Permutations at least as large as what was seen, after which no more are drawn."""

_CHUNK = 1 << 14
_SPARE = 2


def swaps_needed(alpha: float) -> int:
    """Return how many permutations a rejection takes; ``ValueError`` for alpha outside (0, 1)."""
    return math.ceil(_SPARE / open_unit("alpha", alpha))


def swap_test(grams: Any, *, alpha: float, name: str, seed: int = 0) -> TestResult:
    """Test that pairs may be swapped by the sum of their products, against that of random swaps.

    The p-value is exact: permutations are drawn until 20 of them reach what was seen, of m then
    20/m, or until there are :func:`swaps_needed`, of which k reach it: (k + 1)/(m + 1).

    Parameters
    ----------
    grams : sequence of float64 arrays (n_k, n_k)
        As :func:`agreement_test` takes them.

    Raises
    ------
    ValueError
        If there is no such array, one is not square or not finite, alpha is outside (0, 1) or
        takes more permutations than ``MOST_SWAPS``.

    References
    ----------
    .. [1] Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991) 301-304.
    """
    alpha, blocks = open_unit("alpha", alpha), _grams_iv(grams)
    most = swaps_needed(alpha)
    if most > MOST_SWAPS:
        raise ValueError(
            f"alpha is {alpha:g}: that takes {most:,} permutations, above {MOST_SWAPS:,}"
        )
    lower = [np.tril(own, -1).astype(np.float32) for own in blocks]
    seen = float(sum(float(np.tril(own, -1).sum()) for own in blocks))
    # What differs by rounding alone is a tie, and a tie reaches what was seen.
    slack = 1e-4 * math.sqrt(sum(float((own.astype(float) ** 2).sum()) for own in lower)) + 1e-12
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 1, 0]))
    reached = drawn = 0
    size = 256
    while drawn < most and reached < _ENOUGH:
        size = min(size, most - drawn)
        totals = np.zeros(size)
        for own in lower:
            n = len(own)
            drawn_bytes = np.frombuffer(rng.bytes(size * -(-n // 8)), np.uint8).reshape(size, -1)
            signs = np.unpackbits(drawn_bytes, axis=1, count=n).astype(np.float32)
            signs *= 2.0
            signs -= 1.0
            totals += np.einsum("ij,ij->i", signs @ own, signs)
        hits = np.flatnonzero(totals >= seen - slack)
        if reached + len(hits) >= _ENOUGH:
            drawn += int(hits[_ENOUGH - reached - 1]) + 1
            reached = _ENOUGH
        else:
            reached, drawn = reached + len(hits), drawn + size
        size = min(4 * size, _CHUNK)
    pvalue = reached / drawn if reached == _ENOUGH else (reached + 1) / (drawn + 1)
    return TestResult(
        name=name,
        statistic=seen,
        log_pvalue=math.log(pvalue),
        alpha=alpha,
        n=sum(map(len, blocks)),
        df=None,
        method=f"exact p-value of {drawn:,} random swaps of whole answers",
        min_detectable=math.inf,
        deviation="any that two pairs show alike",
    )
