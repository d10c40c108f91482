"""The blocks of a trace, as a decoding loop hands them out.

A trace whose drafts do not follow the draft rows beside them is refused: on it right verifiers
fail and wrong ones may pass.
"""

from collections.abc import Iterator

import numpy as np

from simverify import stats
from simverify.errors import UsageError
from simverify.models.real.trace import Manifest, Trace
from simverify.simulators.decoding.loop import Block
from simverify.stats.pits.pit_orders import Order

ALPHA = 1e-9
"""Chance that a sound trace is refused."""

_ORDERS: tuple[Order, ...] = ("index", "descending")
_STREAM = 6
"""Second word of the key; verifiers' coins on a trace have 5."""


def blocks_of(trace: Trace) -> Iterator[Block]:
    """Yield the blocks of a trace as a decoding loop hands them out; its drafts are checked."""
    found = (
        Block(
            lane=own.lane, position=0, first=False, p=own.p, q=own.q,
            drafts=own.drafts, tau=len(own.emitted) - 1, emitted=own.emitted,
        )
        for own in trace.blocks()
    )  # fmt: skip
    return drafts_checked(found, trace.manifest)


def drafts_checked(blocks: Iterator[Block], made: Manifest) -> Iterator[Block]:
    """Yield the blocks; after the last one raise ``UsageError`` if their drafts do not follow q.

    By randomised PITs. As many blocks of each lane count as a lane has at the least, so that
    what was accepted has no say in it.
    """
    due = -(-made.decoding.tokens // (made.decoding.lanes * (made.gamma + 1)))
    counts = np.zeros(made.decoding.lanes, np.int64)
    bins = np.zeros((len(_ORDERS), stats.PIT_BINS), np.int64)
    rng = np.random.Generator(np.random.Philox(key=[made.seed, _STREAM]))
    for block in blocks:
        counts[block.lane] += 1
        if counts[block.lane] <= due:
            q, tokens = block.q[:-1], np.array(block.drafts)
            v = rng.random(len(tokens))
            for place, order in enumerate(_ORDERS):
                below, above = stats.pit_bounds(q, stats.order_key(order, q), tokens)
                u = np.minimum(below + v * (above - below), 1.0)
                np.add.at(
                    bins[place], np.minimum(u * stats.PIT_BINS, stats.PIT_BINS - 1).astype(int), 1
                )
        yield block
    for order, found in zip(_ORDERS, bins, strict=True):
        test = stats.pit_ks(found, alpha=ALPHA / len(_ORDERS), name=f"drafts, {order} order")
        if test.rejected:
            raise UsageError(
                f"trace: the {test.n:,} drafts do not follow the draft's rows beside them (ln p = "
                f"{test.log_pvalue:.0f}): nothing on it can be said of a verifier; record drafts "
                f"and rows of the same temperature, top-k and top-p"
            )
