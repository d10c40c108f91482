"""From the ngram model's counts to the arrays its kernels read."""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.models.ngram import DRAFT_LENGTH, VOCAB_SIZE, NgramModel, Order, find
from simverify.simulators.kernels.tables.alias import build_alias
from simverify.simulators.kernels.tables.ngram import NgramTables
from simverify.simulators.kernels.tables.ngram_nodes import (
    CUT_BITS,
    NODE3_BITS,
    NODE4_BITS,
    NODE_WORDS,
    ROW_BITS,
)

Words = npt.NDArray[np.uint64]

_BYTE = np.uint64(8)
_LAST = np.uint64(0xFF)


def ngram_tables(model: NgramModel) -> NgramTables:
    """Return the tables of a trained model.

    Raises ``ValueError`` if the model has more contexts than a state can tell apart.
    """
    _ngram_tables_iv(model)
    trigrams, fourgrams, fivegrams = model.orders[2:]
    pairs = trigrams.contexts
    q = _draft_rows(model)
    row_of_pair = np.arange(2**16) % VOCAB_SIZE + len(pairs)
    row_of_pair[pairs] = np.arange(len(pairs))

    rows = row_of_pair[fourgrams.codes >> _BYTE & np.uint64(0xFFFF)]
    q3 = q[rows, fourgrams.codes & _LAST]
    p3 = _interpolated(fourgrams, q3)
    up = find(fourgrams.codes, fivegrams.codes & np.uint64(0xFFFFFFFF))
    p4 = _interpolated(fivegrams, p3[up])

    # The row after a token ends in the row's last byte and the token.
    last_byte = np.concatenate([pairs & _LAST, np.arange(VOCAB_SIZE, dtype=np.uint64)])
    following = row_of_pair[last_byte[:, None] << _BYTE | np.arange(VOCAB_SIZE, dtype=np.uint64)]
    node3 = (np.arange(len(fourgrams.contexts)) + 1) << ROW_BITS
    row = row_of_pair[fourgrams.contexts >> _BYTE]
    following[row, fourgrams.contexts & _LAST] |= node3
    return NgramTables(
        starts=_states(model, row_of_pair),
        alias=_alias_cells(q),
        following=following,
        draft=q,
        sums=np.hstack([np.zeros((len(q), 1)), np.cumsum(q, axis=1)]),
        peak=q.max(axis=1),
        peak_token=q.argmax(axis=1).astype(np.uint8),
        nodes3=_nodes(fourgrams),
        token3=_shift((fourgrams.codes & _LAST).astype(np.uint8)),
        draft3=_shift(q3),
        ratio3=_shift(p3 / q3),
        child3=_shift((find(fivegrams.contexts, fourgrams.codes) + 1) << (ROW_BITS + NODE3_BITS)),
        nodes4=_nodes(fivegrams),
        up4=_shift((up + 1).astype(np.uint32)),
        ratio4=_shift(p4 / q3[up]),
    )


def _ngram_tables_iv(model: NgramModel) -> None:
    for length, bits in ((2, ROW_BITS), (3, NODE3_BITS), (4, NODE4_BITS)):
        contexts = len(model.orders[length].contexts)
        room = 2**bits - VOCAB_SIZE - 1
        if contexts > room:
            raise ValueError(
                f"model has {contexts} contexts of {length} bytes and a state tells {room} apart: "
                f"train on less text"
            )


def _draft_rows(model: NgramModel) -> Floats:
    """Rows (R, 256) of q after each seen pair, then after each single byte."""
    singles, pairs, triples = model.orders[:DRAFT_LENGTH]
    alone = _rows(singles, np.full((1, VOCAB_SIZE), 1.0 / VOCAB_SIZE))
    after_byte = np.repeat(alone, VOCAB_SIZE, axis=0)
    after_byte[pairs.contexts] = _rows(pairs, after_byte[pairs.contexts])
    return np.vstack([_rows(triples, after_byte[triples.contexts & _LAST]), after_byte])


def _rows(order: Order, lower: Floats) -> Floats:
    """Whole row after each context of ``order``, from that after its shorter context."""
    kinds = np.diff(order.starts)[:, None]
    counts = np.zeros(lower.shape)
    counts[np.repeat(np.arange(len(kinds)), kinds[:, 0]), order.codes & _LAST] = order.counts
    return (counts + kinds * lower) / (order.totals[:, None] + kinds)


def _interpolated(order: Order, lower: Floats) -> Floats:
    """Probability of each n-gram of ``order`` from that of its shorter context."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    return (order.counts + kinds[context] * lower) / (order.totals + kinds)[context]


def _nodes(order: Order) -> Words:
    """Node records: an empty one, one per context, and the sentinel."""
    kinds = np.diff(order.starts)
    context = np.repeat(np.arange(len(kinds)), kinds)
    token = order.codes & _LAST
    nodes = np.zeros((len(kinds) + 2, NODE_WORDS), np.uint64)
    word = (token >> np.uint64(6)).astype(np.intp)
    np.bitwise_or.at(nodes, (context + 1, word), np.uint64(1) << (token & np.uint64(63)))
    nodes[1:, 4] = order.starts + 1
    nodes[0, 4] = 1
    below = np.cumsum(np.bitwise_count(nodes[:, :3]), axis=1, dtype=np.uint64)
    for i in range(3):
        nodes[:, 4] |= below[:, i] << np.uint64(40 + 8 * i)
    keep = np.ones(len(nodes))
    keep[1:-1] = kinds / (order.totals + kinds)
    nodes[:, 5] = keep.view(np.uint64)
    return nodes


def _alias_cells(q: Floats) -> Words:
    cut, token = np.empty_like(q), np.empty(q.shape, np.int32)
    build_alias(q, cut, token)
    return np.rint(cut * 2.0**CUT_BITS).astype(np.uint64) << _BYTE | token.astype(np.uint64)


def _states(model: NgramModel, row_of_pair: Ints) -> Ints:
    """States (n,) of the held-out contexts."""
    codes = model.contexts.copy().view(">u4").astype(np.uint64).ravel()
    node4 = find(model.orders[4].contexts, codes) + 1
    node3 = find(model.orders[3].contexts, codes & np.uint64(0xFFFFFF)) + 1
    row = row_of_pair[codes & np.uint64(0xFFFF)]
    states: Ints = node4 << (ROW_BITS + NODE3_BITS) | node3 << ROW_BITS | row
    return states


def _shift(values: Any) -> Any:
    """Make room for entry 0, which stands for no follower."""
    return np.concatenate([np.zeros(1, values.dtype), values])
