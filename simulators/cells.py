"""Cells of tokens: what is counted where a vocabulary is too large to count every token.

A hash deals the tokens out, so that a cell has no more to do with a model's own structure
(state = token mod 64) than with the order of its tokens.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Ints

COARSE_CELLS = 64

MAX_CONTEXT_CELLS = 1 << 17
"""Most entries of a Markov model's rows for which every token is counted after every context.

That is V = 2016 for 64 states. Beyond it, refuting a TV of .01 takes hundreds of millions of
tokens; randomised PITs are used instead.
"""

MAX_COUNTED = 1 << 22
"""Most entries of a table of counts, positions x rows x cells: 32 MB a thread."""


def fine_cells(vocab_size: int, rows: int, positions: int) -> int:
    """Return how many cells a table of counts has room for; all tokens, or a multiple of 64."""
    room = MAX_COUNTED // (rows * positions)
    if vocab_size <= max(room, COARSE_CELLS):
        return vocab_size
    return COARSE_CELLS * max(room // COARSE_CELLS, 1)


def token_cells(vocab_size: int, count: int) -> Ints:
    """Return the cell of each token, int64 (V,): its own, or one of ``count`` by a hash.

    The cells' sizes differ by one at most. Cells of 64 ``count`` taken mod 64 are those of 64.
    """
    tokens = np.arange(vocab_size)
    if count >= vocab_size:
        return tokens
    # The finaliser of splitmix64; its ranks deal out the cells evenly.
    x = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    cells = np.empty(vocab_size, np.int64)
    cells[np.argsort(x, kind="stable")] = tokens % count
    return cells


def coarser(fine: int, vocab_size: int) -> Ints:
    """Return which of the 64 coarse cells holds each of the ``fine`` ones, int64 (fine,)."""
    if fine == vocab_size:
        return token_cells(vocab_size, COARSE_CELLS)
    return np.arange(fine) % COARSE_CELLS


def merged(table: npt.NDArray[Any], cells: Ints) -> npt.NDArray[Any]:
    """Sum the columns of ``table`` (rows, n) that share a cell; ``cells`` int64 (n,)."""
    # Row by row: at V = 152,064 a copy of the rows is 79 MB. Counts stay exact below 2^53.
    sums: npt.NDArray[Any] = np.array([np.bincount(cells, row) for row in table])
    return sums.astype(table.dtype)
