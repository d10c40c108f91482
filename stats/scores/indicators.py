"""Bits with known probabilities: accept bits, and scores that are 0 or 1.

A stream of bits is kept as their sum and a fine histogram of their probabilities: constant
memory, and shards add. The tail is that of a Poisson-binomial law that is never lighter than
the true one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, Ints, count_rows

INDICATOR_BINS = 960
"""Bins on each side of 1/2, sixteen to each halving; one more holds the exact 0 or 1."""

RARE_EDGES = np.append(0.5 * 2.0 ** (-np.arange(INDICATOR_BINS) / 16.0), 0.0)
"""Largest rarer-side probability in each bin."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IndicatorSums:
    """Sums over bits whose probabilities are known; those of disjoint samples add up.

    Attributes
    ----------
    n, hits : int
        Bits, and how many of them are 1.
    impossible : int
        Bits that are 1 at probability 0, or 0 at probability 1.
    bits : int64 array (2, INDICATOR_BINS + 1)
        Bits by the probability of their rarer value, in axis 0 those whose rarer value is 1
        (probability at most 1/2), then those whose rarer value is 0.
    rare : float64 array (2, INDICATOR_BINS + 1)
        Sum of the rarer value's probabilities over the bits of each bin.
    """

    n: int
    hits: int
    impossible: int
    bits: Ints
    rare: Floats

    def __add__(self, other: "IndicatorSums") -> "IndicatorSums":
        return IndicatorSums(
            n=self.n + other.n,
            hits=self.hits + other.hits,
            impossible=self.impossible + other.impossible,
            bits=self.bits + other.bits,
            rare=self.rare + other.rare,
        )

    @property
    def mean(self) -> float:
        """Expected hits under the null."""
        return float(self.rare[0].sum() + self.bits[1].sum() - self.rare[1].sum())

    @property
    def variance(self) -> float:
        """Variance of the hits under the null, with the mean probability of each bin."""
        share = self.rare / np.maximum(self.bits, 1)
        return float((self.rare * (1.0 - share)).sum())


def indicator_bin(probability: Any) -> tuple[Any, Any]:
    """Side (0 or 1) and bin of probabilities in [0, 1], elementwise: what kernels do too.

    Raises
    ------
    ValueError
        If a probability is NaN or outside [0, 1].
    """
    p = np.asarray(probability, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("a probability is NaN or outside [0, 1], expected neither")
    side = p > 0.5
    rare = np.where(side, 1.0 - p, p)
    with np.errstate(divide="ignore"):
        index = np.minimum(-16.0 * np.log2(2.0 * rare), INDICATOR_BINS - 1.0)
    return side.astype(np.int64), np.where(rare == 0.0, INDICATOR_BINS, index).astype(np.int64)


def indicator_sums(bits: Any, probabilities: Any) -> IndicatorSums:
    """Sum up bits and the probabilities with which each was to be 1.

    Parameters
    ----------
    bits : int or bool array (n,)
        0 or 1; n fixed beforehand.
    probabilities : float64 array (n,)
        Probability of a 1, given all that came before.

    Raises
    ------
    ValueError
        If shapes differ, n is 0, a bit is neither 0 nor 1 or a probability not in [0, 1].
    """
    b, p = np.asarray(bits), np.asarray(probabilities, dtype=np.float64)
    if b.ndim != 1 or b.shape != p.shape or b.size == 0:
        raise ValueError(f"bits, probabilities have shapes {b.shape}, {p.shape}, expected (n,), "
                         "n >= 1")  # fmt: skip
    if b.dtype.kind not in "biu" or b.min() < 0 or b.max() > 1:
        raise ValueError(f"bits span {b.min()}..{b.max()} ({b.dtype}), expected integers 0 and 1")
    return _gather(b.astype(np.int64), np.ones(b.size, dtype=np.int64), p)


def indicator_sums_of_contexts(counts: Any, rows: Any, members: Any) -> IndicatorSums:
    """Sum up the tokens that belong to a set, which may differ from context to context.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context.
    rows : float64 array (contexts, V)
        Target rows; each sums to 1.
    members : bool array (contexts, V)
        The tokens that score 1.

    Raises
    ------
    ValueError
        If there is no token, counts are negative or not integers, shapes differ, V < 2 or a
        row is no law.
    """
    array, law = count_rows("counts", counts, rows)
    inside = np.asarray(members)
    if inside.dtype != np.bool_ or inside.shape != array.shape:
        raise ValueError(f"members is {inside.dtype} {inside.shape}, expected bool {array.shape}")
    if array.sum() == 0:
        raise ValueError("counts are all 0, expected at least one token")
    # Sums of all or of no possible tokens are 1 and 0, whatever their last digits say.
    outside = ~inside & (law > 0.0)
    chance = np.where(outside.any(axis=1), np.where(inside, law, 0.0).sum(axis=1), 1.0)
    return _gather((array * inside).sum(axis=1), array.sum(axis=1), np.minimum(chance, 1.0))


def _gather(hits: Ints, trials: Ints, p: Floats) -> IndicatorSums:
    side, index = indicator_bin(p)
    width = INDICATOR_BINS + 1
    flat = side * width + index
    rare = np.where(p > 0.5, 1.0 - p, p)
    bits = np.bincount(flat, trials, 2 * width).astype(np.int64)
    sums = np.bincount(flat, rare * trials, 2 * width)
    return IndicatorSums(
        n=int(trials.sum()),
        hits=int(hits.sum()),
        impossible=int(hits[p == 0.0].sum() + (trials - hits)[p == 1.0].sum()),
        bits=bits.reshape(2, width),
        rare=sums.astype(np.float64).reshape(2, width),
    )
