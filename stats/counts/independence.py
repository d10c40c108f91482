"""Are two emissions independent? Tables of disjoint pairs: calls in a row, or rows of a batch.

Each emission follows the target, and the members of a pair are independent under the null;
what a pair shares (a stream, a seed, a buffer) shows in their joint law alone. Pairs that
share a member would not be independent of each other: their tables are 10 to 40 times too
often beyond their level.
"""

import dataclasses
from typing import Any

import numpy as np

from simverify.stats._checks import (
    Ints,
    counts,
    in_ball,
    positive_int,
    probability_rows,
    tv_ball,
)
from simverify.stats.counts.deviance import MIN_EXPECTED
from simverify.stats.counts.g2 import G2
from simverify.stats.counts.transitions import transition_g2
from simverify.stats.means.binomial import (
    acceptance_min_detectable,
    acceptance_test,
)
from simverify.stats.results import TestResult

PIT_CELLS = 8
"""Equal cells of [0, 1) on each side of a table of pairs of PITs."""

MIN_TABLE = int(MIN_EXPECTED) * PIT_CELLS**2
"""Fewest pairs in such a table: each cell expects 10."""


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
    law = probability_rows("row", row, 1)
    a, b = _pairs_iv(first, second, "iu")
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= law.size:
        raise ValueError(f"tokens span {min(a.min(), b.min())}..{max(a.max(), b.max())}, "
                         f"expected 0..{law.size - 1}")  # fmt: skip
    joint = np.outer(law, law).ravel()
    table = np.bincount(a * law.size + b, minlength=joint.size)
    return transition_g2(table[None], joint[None])


def pit_table(first: Any, second: Any) -> Ints:
    """Count pairs of PITs by cell, int64 (8, 8); tables of disjoint samples add up.

    Parameters
    ----------
    first, second : float64 array (n,)
        PITs in [0, 1] of the members of each pair; no member in two pairs.

    Raises
    ------
    ValueError
        If shapes differ, n is 0 or a PIT is NaN or outside [0, 1].
    """
    u, v = _pairs_iv(first, second, "f")
    if not all(side.min() >= 0.0 and side.max() <= 1.0 for side in (u, v)):
        raise ValueError("a PIT is NaN or outside [0, 1], expected F(x-) + v P(x)")
    cells = [np.minimum((side * PIT_CELLS).astype(np.int64), PIT_CELLS - 1) for side in (u, v)]
    table = np.bincount(cells[0] * PIT_CELLS + cells[1], minlength=PIT_CELLS**2)
    return table.reshape(PIT_CELLS, PIT_CELLS)


def pit_table_g2(table: Any) -> G2:
    """G2 of a table of pairs of PITs against independent uniforms, whatever the vocabulary.

    Parameters
    ----------
    table : int array (8, 8)
        As :func:`pit_table` counts it, of n pairs, n fixed beforehand.

    Raises
    ------
    ValueError
        If the table has another shape or negative entries, or fewer than 640 pairs: each
        cell must expect 10.
    """
    cells = counts("table", table, 2)
    if cells.shape != (PIT_CELLS, PIT_CELLS):
        raise ValueError(f"table has shape {cells.shape}, expected {(PIT_CELLS, PIT_CELLS)}")
    if cells.sum() < MIN_TABLE:
        raise ValueError(f"table holds {cells.sum()} pairs, expected {MIN_TABLE} or more")
    return transition_g2(cells.reshape(1, -1), np.full((1, cells.size), 1.0 / cells.size))


def _pairs_iv(first: Any, second: Any, kinds: str) -> tuple[Any, Any]:
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"first, second have shapes {a.shape}, {b.shape}, expected (n,), n >= 1")
    if a.dtype.kind not in kinds or b.dtype.kind not in kinds:
        wanted = "integers" if kinds == "iu" else "floats"
        raise ValueError(f"first, second are {a.dtype}, {b.dtype}, expected {wanted}")
    return a, b


def duplicates_test(
    count: int,
    n: int,
    probability: float,
    *,
    alpha: float,
    ball: float = 0.0,
    name: str = "duplicates",
) -> TestResult:
    """Test that not too many pairs are equal: exact binomial, against excess alone.

    Parameters
    ----------
    count, n : int
        Equal pairs of ``n`` disjoint ones, n fixed beforehand.
    probability : float
        That two independent emissions are equal: the sum of the squares of their law.
    ball : float
        TV distance by which the law of an emission may be off: twice that for equality.

    Raises
    ------
    ValueError
        If count is outside 0..n, n < 1, probability is outside [0, 1], alpha outside (0, 1)
        or ball outside [0, 1).
    """
    chance, radius = _chance(probability, ball), tv_ball(ball)
    test = acceptance_test([count], n, [0.0], [chance], alpha=alpha, name=name)
    return dataclasses.replace(
        test,
        method=in_ball("exact binomial", radius),
        deviation="excess of equal pairs",
        level=None,
    )


def duplicates_min_detectable(
    n: int, probability: float, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Smallest excess of the rate of equal pairs found with this power, inf if there is none.

    Raises
    ------
    ValueError
        If n < 1, probability is outside [0, 1], alpha or power outside (0, 1) or ball
        outside [0, 1).
    """
    chance = _chance(probability, ball)
    found = acceptance_min_detectable(n, [0.0], [chance], alpha=alpha, power=power)
    return found + chance - probability


def _chance(probability: float, ball: float) -> float:
    """Largest probability of equality within the ball."""
    if not 0.0 <= probability <= 1.0 + 1e-9:
        raise ValueError(f"probability is {probability}, expected a number in [0, 1]")
    return min(probability + 2.0 * tv_ball(ball), 1.0)
