"""What the compiled loops read and count into: a model's rows as tables, and cells of tokens.

Cells are counted where a vocabulary is too large to count every token. A hash deals the tokens
out, so that a cell has no more to do with a model's own structure (state = token mod 64) than
with the order of its tokens.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.models.base import MarkovModel, Model
from simverify.simulators.kernels.tables.alias import build_alias
from simverify.simulators.kernels.tables.markov import INDEX_STEP, MarkovTables

_MOST_CELLS = 1 << 14
"""Beyond, finding a place takes a few steps more, and the table would grow with V."""

_MOST_GUIDE_CELLS = 1 << 16
"""The same for the support of a law; its search walks, so it needs cells of few tokens."""


def model_tables(model: Model) -> Any:
    """Return the tables of ``model`` for the compiled loops.

    Raises ``TypeError`` for a model that has none.
    """
    if isinstance(model, MarkovModel):
        return markov_tables(model)
    from simverify.models.ngram import NgramModel
    from simverify.simulators.ngram_tables import ngram_tables

    if isinstance(model, NgramModel):
        return ngram_tables(model)
    raise TypeError(f"no compiled tables for {type(model).__name__}")


def markov_tables(model: MarkovModel) -> MarkovTables:
    """Return the sorted prefix sums and alias tables of a Markov model.

    Filled row by row: at V = 152,064 one more table of floats is 79 MB.
    """
    p = stacked(model.target_rows, model.target_start)
    q = stacked(model.draft_rows, model.draft_start)
    rows, size = p.shape
    cut, alias = np.empty_like(p), np.empty(p.shape, np.int32)
    build_alias(q, cut, alias)
    ratio, inverse = np.empty_like(p), np.empty_like(p)
    order, rank = np.empty(p.shape, np.int32), np.empty(p.shape, np.int32)
    guide = np.empty((rows, min(2 * size, _MOST_GUIDE_CELLS) + 1), np.int32)
    sums, minus = np.empty((2, rows, size + 1)), np.zeros((2, rows))
    places = np.empty((2, rows, _place_cells(size) + 1), np.int32)
    index_sums = np.empty((rows, -(-size // INDEX_STEP)))
    for r in range(rows):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = np.where(p[r] > 0, q[r] / p[r], np.inf)
            ratio[r] = np.where(p[r] > 0, p[r] / q[r], 0.0)
        tokens = np.argsort(quotient, kind="stable")
        order[r] = tokens
        rank[r, tokens] = np.arange(size, dtype=np.int32)
        inverse[r] = quotient[tokens]
        guide[r] = _guide(inverse[r], guide.shape[1] - 1)
        sums[:, r] = _prefix_sums(p[r][tokens]), _prefix_sums(q[r][tokens])
        support, above = int(np.sum(inverse[r] < np.inf)), int(np.sum(inverse[r] < 1))
        residual = sums[0, r] - sums[1, r]
        minus[1, r] = residual[above] > 0
        if not minus[1, r]:
            # Residual mass of zero can only be rounding: the target row stands in for it.
            residual, above = sums[0, r], support
        cells = places.shape[2] - 1
        places[0, r] = _places(sums[0, r], support, cells)
        places[1, r] = _places(residual, above, cells)
        index_sums[r] = _prefix_sums(p[r])[:-1:INDEX_STEP]
    return MarkovTables(
        target=p,
        draft=q,
        ratio=ratio,
        alias_cut=cut,
        alias_token=alias,
        order=order,
        rank=rank,
        inverse=inverse,
        guide=guide,
        sums=sums,
        minus=minus,
        places=places,
        index_sums=index_sums,
        mode=np.argmax(p, axis=1).astype(np.int32),
        successor=(np.arange(model.vocab_size) % model.states).astype(np.int32),
    )


def stacked(rows: Floats, start: Floats) -> Floats:
    """Return the rows (S+1, V), the start last; no copy where they already lie so."""
    whole = rows.base
    if isinstance(whole, np.ndarray) and whole.shape == (len(rows) + 1, rows.shape[1]):
        parts = (whole[:-1], rows), (whole[-1], start)
        if all(a.__array_interface__ == b.__array_interface__ for a, b in parts):
            return whole
    return np.vstack([rows, start])


def _prefix_sums(row: Floats) -> Floats:
    return np.concatenate([np.zeros(1), np.cumsum(row)])


def _guide(inverse: Floats, cells: int) -> Ints:
    """Where to start looking for q/p = r in a sorted row, by the cell of r / (1 + r)."""
    with np.errstate(invalid="ignore"):
        place = np.where(np.isinf(inverse), 2.0, inverse / (1 + inverse))
    # A cell's entry lies a rounding error to the left, never beyond what it guides to.
    return np.searchsorted(place, np.arange(cells + 1) / cells - 1e-9)


def _place_cells(size: int) -> int:
    # A power of two, so that no rounding moves u to another cell.
    return 1 << min(2 * size - 1, _MOST_CELLS - 1).bit_length()


def _places(sums: Floats, count: int, cells: int) -> Ints:
    """Place in the sorted row that u = cell/cells draws by these prefix sums."""
    # Steps as small as a rounding error may go down; a search needs them sorted.
    sorted_sums = np.maximum.accumulate(sums[:count])
    goals = np.arange(cells + 1) / cells * sums[count]
    places: Ints = np.searchsorted(sorted_sums, goals, side="right") - 1
    return places


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
