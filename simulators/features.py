"""What a run keeps of its emitted tokens: sums for every test, constant in number, that add.

The contexts need not repeat: a token comes with its own target and draft row, at any
vocabulary. A batch of rows goes in, a :class:`Features` comes out, and the rows may be
forgotten; those of disjoint batches add up.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.simulators.kernels.rows import features as kernel
from simverify.stats.counts.independence import PIT_CELLS
from simverify.stats.pits.pit_orders import Order
from simverify.stats.scores.functions import SURPRISE_CAP

ORDERS: tuple[Order, ...] = ("ratio", "index", "descending")
"""Orders of the vocabulary, first axis of ``Features.pits``."""

_PARTS = 1 << 20
"""Entries of rows that a thread takes at a time, however many threads there are."""

_SUM_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Sums over emitted tokens, one field per test of the battery; those of batches add up.

    Attributes
    ----------
    n : int
        Tokens.
    unsupported : int
        Tokens of probability 0 under their target row.
    pits : int64 array (3, 65536)
        Histograms of the randomised PITs: ascending q/p, token id, likeliest token first;
        ties by token id. One uniform randomises all three. For ``pit_ks``.
    q_above_p : IndicatorSums
        Of 1{q > p}.
    rare : tuple of IndicatorSums
        Of 1{P(x) < 1e-3} and 1{P(x) < 1e-5}.
    accept, contrast, surprise : ScoreSums
        Of the scores of that name (:mod:`simverify.stats.scores.functions`).
    ratios : RatioSums
        Of the faults whose law needs the slot's own rows alone; ``growth`` is NaN where
        tokens were streamed.
    pairs : PairSums
        Of the PITs in q/p order of tokens that follow each other.
    pair_table : int64 array (8, 8)
        The same pairs by cell, those that share no token.
    """

    n: int
    unsupported: int
    pits: Ints
    q_above_p: stats.IndicatorSums
    rare: tuple[stats.IndicatorSums, ...]
    accept: stats.ScoreSums
    contrast: stats.ScoreSums
    surprise: stats.ScoreSums
    ratios: stats.RatioSums
    pairs: stats.PairSums
    pair_table: Ints

    def __add__(self, other: "Features") -> "Features":
        sums = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name != "rare"
        }
        rare = tuple(a + b for a, b in zip(self.rare, other.rare, strict=True))
        return Features(rare=rare, **sums)


def features(
    p: Any,
    q: Any,
    tokens: Any,
    uniforms: Any,
    *,
    judged: Any = None,
    follows: Any = None,
    threads: int = 1,
) -> Features:
    """Sum up the features of a batch of emitted tokens.

    Two passes over each row and no copy of them; memory beside the rows is 400 bytes a token.
    Sums are float64 whatever the rows. float32 entries are rounded by up to 2^-25 of
    themselves: the PIT, scores and ratios are then those of a law within TV 3e-8 of the
    unrounded one, and exact for the rows as given, each divided by its float64 sum. Powers of
    float32 entries, in the laws of a wrong temperature, are good to 5e-6 of themselves.

    Parameters
    ----------
    p, q : float32 or float64 array (n, V)
        Target and draft row of each token's slot; every row sums to 1 within 1e-9, or 1e-4
        in float32. For a slot without a draft row pass any row fixed beforehand, such as the
        previous slot's or ``p`` itself.
    tokens : int array (n,)
        Emitted tokens; n fixed beforehand.
    uniforms : float64 array (n,)
        In [0, 1), independent of all else; they randomise the PITs.
    judged : bool array (n,), optional
        False where ``q`` judged no draft, as at a bonus token: the faults do no harm there,
        but for the target's temperature. Default: all True.
    follows : bool array (n,), optional
        True where the token makes a pair with the one before it in the batch, whose PIT the
        choice must not depend on: of single calls, pairs within calls alone are no fair sample
        (the first of them was kept), those of all tokens in their order are. Default: all
        False.
    threads : int
        Threads that share the rows; they change no result.

    Raises
    ------
    ValueError
        If shapes or dtypes differ, there is no token, V < 2, a row is no law, a token is
        outside 0..V-1 or a uniform outside [0, 1).
    """
    p, q, ids, v = _batch_iv(p, q, tokens, uniforms)
    slots = _flags_iv("judged", judged, ids, default=True)
    after = _flags_iv("follows", follows, ids, default=False)
    if threads < 1:
        raise ValueError(f"threads is {threads}, expected a whole number, 1 or more")
    after[0] = False
    records = np.empty((ids.size, kernel.RECORD))
    ratios = np.empty((ids.size, len(kernel.FAULTS)))

    def work(begin: int, end: int) -> Floats:
        part = slice(begin, end)
        kernel.fill(p[part], q[part], ids[part], v[part], slots[part], records[part], ratios[part])
        wealth = np.zeros((3, len(kernel.FAULTS), len(stats.STRENGTHS)))
        kernel.bet(ratios[part], np.array(stats.STRENGTHS), wealth)
        return wealth

    wealth = sum(_in_parts(work, ids.size, max(1, _PARTS // p.shape[1]), threads))
    _rows_iv(records, p.dtype)
    columns = records.T
    first = columns[kernel.PIT_RATIO]
    return Features(
        n=ids.size,
        unsupported=int((columns[kernel.PROBABILITY] == 0.0).sum()),
        pits=np.stack([_histogram(columns[c]) for c in range(len(ORDERS))]),
        q_above_p=_indicator(columns, kernel.IS_ABOVE),
        rare=tuple(_indicator(columns, c) for c in (kernel.IS_RARE_0, kernel.IS_RARE_1)),
        accept=_score(columns, kernel.ACCEPT, 1.0),
        contrast=_score(columns, kernel.CONTRAST, 2.0),
        surprise=_score(columns, kernel.SURPRISE, SURPRISE_CAP),
        ratios=_ratio_sums(wealth, ids.size),
        pairs=_pairs(first, after),
        pair_table=_pair_table(first, after),
    )


def _in_parts(
    work: Callable[[int, int], Floats], n: int, size: int, threads: int
) -> list[Floats]:  # fmt: skip
    """Run ``work`` on even ranges of 0..n-1, in order: the sum of what it gives is always one."""
    count = -(-n // size)
    bounds = [n * k // count for k in range(count + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, bounds[:-1], bounds[1:]))


def _histogram(pits: Floats) -> Ints:
    bins = np.minimum((pits * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
    return np.bincount(bins, minlength=stats.PIT_BINS)


def _indicator(columns: Floats, place: int) -> stats.IndicatorSums:
    return stats.indicator_sums(columns[place].astype(np.int64), columns[place + 1])


def _score(columns: Floats, place: int, width: float) -> stats.ScoreSums:
    score, mean, variance, third, fourth, low, high = columns[place : place + 7]
    return stats.score_sums(
        score, mean=mean, variance=variance, third=third, fourth=fourth, low=low, high=high,
        width=width,
    )  # fmt: skip


def _ratio_sums(wealth: Any, n: int) -> stats.RatioSums:
    """One factor of 0 outweighs any of infinity, and the inverse has them the other way round."""
    total, zeros, infinities = wealth
    forward = np.where(infinities > 0, np.inf, total)
    backward = np.where(zeros > 0, np.inf, -total)
    return stats.RatioSums(
        names=kernel.FAULTS,
        n=n,
        log_evalues=np.where(zeros > 0, -np.inf, forward),
        log_refutations=np.where(infinities > 0, -np.inf, backward),
        growth=np.full(total.shape, np.nan),
        ball=0.0,
    )


def _pairs(pits: Floats, after: npt.NDArray[np.bool_]) -> stats.PairSums:
    second = np.flatnonzero(after)
    if second.size == 0:
        return stats.PairSums(n=0, products=0.0, spreads=0.0)
    return stats.pair_sums(pits[second - 1], pits[second])


def _pair_table(pits: Floats, after: npt.NDArray[np.bool_]) -> Ints:
    """Pair tokens 0 and 1, 2 and 3, ... of each sequence."""
    index = np.arange(after.size)
    start = np.maximum.accumulate(np.where(after, 0, index))
    second = np.flatnonzero((index - start) % 2 == 1)
    if second.size == 0:
        return np.zeros((PIT_CELLS, PIT_CELLS), np.int64)
    return stats.pit_table(pits[second - 1], pits[second])


def _batch_iv(p: Any, q: Any, tokens: Any, uniforms: Any) -> tuple[Any, Any, Ints, Floats]:
    p, q = np.ascontiguousarray(p), np.ascontiguousarray(q)
    if p.shape != q.shape or p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"p, q have shapes {p.shape}, {q.shape}, expected the same (n, V), "
                         "V >= 2")  # fmt: skip
    if p.dtype != q.dtype or p.dtype not in _SUM_TOLERANCE:
        raise ValueError(f"p, q are {p.dtype}, {q.dtype}, expected float32 or float64, both "
                         "the same: convert one")  # fmt: skip
    n, vocab_size = p.shape
    ids, v = np.asarray(tokens), np.asarray(uniforms, dtype=np.float64)
    if ids.shape != (n,) or ids.dtype.kind not in "iu" or n == 0:
        raise ValueError(f"tokens is {ids.dtype} {ids.shape}, expected integers ({n},), n >= 1")
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(f"tokens span {ids.min()}..{ids.max()}, expected 0..{vocab_size - 1}")
    if v.shape != (n,) or not ((v >= 0.0) & (v < 1.0)).all():
        raise ValueError(f"uniforms has shape {v.shape} or a number outside [0, 1), expected "
                         f"({n},) in [0, 1)")  # fmt: skip
    return p, q, ids.astype(np.int64, copy=False), v


def _flags_iv(name: str, flags: Any, ids: Ints, *, default: bool) -> npt.NDArray[np.bool_]:
    array = np.full(ids.shape, default) if flags is None else np.array(flags)
    if array.shape != ids.shape or array.dtype != np.bool_:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, expected bool {ids.shape}")
    return array


def _rows_iv(records: Floats, dtype: Any) -> None:
    """Raise unless all rows are laws, by what the kernel found in them."""
    tolerance = _SUM_TOLERANCE[dtype]
    improper = records[:, kernel.IMPROPER] > 0.0
    if improper.any():
        raise ValueError(f"p or q row {improper.argmax()} has a negative or NaN entry, expected "
                         "neither")  # fmt: skip
    for name, place in (("p", kernel.MASS_P), ("q", kernel.MASS_Q)):
        off = ~(np.abs(records[:, place] - 1.0) <= tolerance)
        if off.any():
            bad = int(off.argmax())
            raise ValueError(
                f"{name} row {bad} sums to {records[bad, place]:.12g} ({dtype}), expected 1 "
                f"within {tolerance:g}: normalise in float64"
            )
