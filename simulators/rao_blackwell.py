"""E[tau] where no exact law is at hand: the ngram model's contexts, each of them visited.

A block of ``ngram`` starts in one of n held-out contexts, equally likely. Each is a stratum,
so the differences between contexts, nine tenths of the variance, drop out; a context that
occurs k times splits its first draw into k equal parts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.models.ngram import DRAFT_LENGTH, VOCAB_SIZE, NgramModel, Order
from simverify.simulators.kernels.rao_blackwell import PAIR, RULES, accumulate, follow_modes
from simverify.simulators.run import on_threads

Words = npt.NDArray[np.uint64]

FIRST_TRIAL = 1 << 62
"""First trial whose draws are read: addresses that no measurement reads."""

SHARD = 1 << 12
"""Strata a thread takes at a time."""

_LAST = np.uint64(0xFF)


@dataclass(frozen=True, eq=False)
class RaoBlackwell:
    """Means over ``strata`` pairs of independent paths; see ``kernels.rao_blackwell``.

    ``mean`` float64 (gamma+1,): entry l-1 estimates Pr(tau >= l), the last one E[tau].
    ``variance`` (gamma+1,): mean over strata of half the squared difference of a pair, an
    unbiased estimate of one path's mean variance within its stratum.
    """

    strata: int
    mean: Floats
    variance: Floats


def rao_blackwell(
    model: NgramModel, gamma: int, *, seed: int, threads: int, rounds: int = 1
) -> dict[str, RaoBlackwell]:
    """Estimate the acceptance curve and E[tau] of token, block, greedy and match.

    One pair of paths from each of the model's contexts, ``rounds`` times over. Neither
    ``threads`` nor their timing changes the result.
    """
    rows = count_rows(model)
    contexts, low, width = _strata(model, rounds)

    def work(take: Any) -> list[tuple[int, Floats]]:
        parts = []
        while (shard := take()) is not None:
            begin, end = shard
            moments = np.zeros((2, len(RULES), gamma + 1))
            accumulate(
                rows, contexts[begin:end], low[begin:end], width[begin:end], np.uint64(seed),
                FIRST_TRIAL + PAIR * begin, moments[0], moments[1],
            )  # fmt: skip
            parts.append((begin, moments))
        return parts

    results = on_threads(work, 0, len(contexts), threads, SHARD)
    # Floating-point sums in the order of the shards, whoever computed them.
    parts = sorted((part for result in results for part in result), key=lambda part: part[0])
    mean, variance = np.sum([moments for _, moments in parts], axis=0) / len(contexts)
    return {name: RaoBlackwell(len(contexts), mean[i], variance[i]) for i, name in enumerate(RULES)}


def modes_curve(model: NgramModel, gamma: int) -> Floats:
    """Exact Pr(tau >= l), l = 1..gamma, at temperature 0: the one path that is kept.

    float64 (gamma,), up to rounding: the product of q at the target's modes along that path,
    averaged over the contexts.
    """
    contexts, counts = np.unique(_codes(model), return_counts=True)
    kept = np.empty((len(contexts), gamma))
    follow_modes(count_rows(model), contexts, kept)
    curve: Floats = (np.cumprod(kept, axis=1) * (counts / counts.sum())[:, None]).sum(axis=0)
    return curve


def count_rows(model: NgramModel) -> tuple[Any, Floats, npt.NDArray[np.int64]]:
    """Return what ``kernels.rao_blackwell`` reads rows from: plain counts and draft rows."""
    rows = np.full((1, VOCAB_SIZE), 1.0 / VOCAB_SIZE)
    row_of = np.zeros(1, np.int64)
    for length, order in enumerate(model.orders[:DRAFT_LENGTH]):
        # An unseen context passes to the shorter one, whose row stays in the table.
        shorter = row_of[np.arange(256**length) % len(row_of)]
        seen = order.contexts.astype(np.int64)
        row_of = shorter.copy()
        row_of[seen] = len(rows) + np.arange(len(seen))
        rows = np.vstack([rows, _longer(order, rows[shorter[seen]])])
    long_orders = tuple(
        (
            order.contexts,
            np.uint64(256**length - 1),
            order.starts,
            (order.codes & _LAST).astype(np.uint8),
            order.counts,
        )
        for length, order in enumerate(model.orders)
        if length >= DRAFT_LENGTH
    )
    return long_orders, rows, row_of


def _longer(order: Order, lower: Floats) -> Floats:
    """Rows after the contexts of ``order`` from the rows ``lower`` after the shorter ones."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    total = order.totals + kinds
    rows = lower * (kinds / total)[:, None]
    rows[context, (order.codes & _LAST).astype(np.intp)] += order.counts / total[context]
    return rows


def _codes(model: NgramModel) -> Words:
    """Return the contexts (n,), their bytes packed big-endian."""
    return np.ascontiguousarray(model.contexts).view(">u4").ravel().astype(np.uint64)


def _strata(model: NgramModel, rounds: int) -> tuple[Words, Floats, Floats]:
    """Context and range of the first uniform of each stratum, ``rounds`` times."""
    codes = np.sort(np.tile(_codes(model), rounds))
    _, index, counts = np.unique(codes, return_inverse=True, return_counts=True)
    part = np.arange(len(codes)) - (np.cumsum(counts) - counts)[index]
    width = 1.0 / counts[index]
    return codes, part * width, width
