"""From a model to the arrays its kernels read."""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.models.base import MarkovModel, Model
from simverify.simulators.kernels.alias import build_alias
from simverify.simulators.kernels.markov import MarkovTables

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MOST_CELLS = 1 << 14
"""Beyond, finding a place takes a few steps more, and the table would grow with V."""


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
    """Return the sorted prefix sums and alias tables of a Markov model."""
    p = np.vstack([model.target_rows, model.target_start])
    q = np.vstack([model.draft_rows, model.draft_start])
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(p > 0, q / p, np.inf)
        ratio = np.where(p > 0, p / q, 0.0)
    order = np.argsort(inverse, axis=1, kind="stable")
    inverse = np.take_along_axis(inverse, order, axis=1)
    cut, alias = np.empty_like(q), np.empty(q.shape, np.int32)
    build_alias(q, cut, alias)
    sums, counts = _law_sums(p, q, order, inverse)
    return MarkovTables(
        target=p,
        ratio=ratio,
        alias_cut=cut,
        alias_token=alias,
        order=order.astype(np.int32),
        rank=np.argsort(order, axis=1).astype(np.int32),
        inverse=inverse,
        guide=_guide(inverse),
        sums=sums,
        places=_places(sums, counts),
        index_sums=_prefix_sums(p),
        mode=np.argmax(p, axis=1).astype(np.int32),
        successor=(np.arange(model.vocab_size) % model.states).astype(np.int32),
    )


def _prefix_sums(rows: Floats) -> Floats:
    return np.hstack([np.zeros((rows.shape[0], 1)), np.cumsum(rows, axis=1)])


def _guide(inverse: Floats) -> npt.NDArray[np.int32]:
    """Where to start looking for q/p = r in a sorted row, by the cell of r / (1 + r)."""
    cells = 2 * inverse.shape[1]
    with np.errstate(invalid="ignore"):
        place = np.where(np.isinf(inverse), 2.0, inverse / (1 + inverse))
    # A cell's entry lies a rounding error to the left, never beyond what it guides to.
    edges = np.arange(cells + 1) / cells - 1e-9
    return np.array([np.searchsorted(row, edges) for row in place], dtype=np.int32)


def _law_sums(p: Floats, q: Floats, order: Ints, inverse: Floats) -> tuple[Floats, Ints]:
    """Prefix sums of sorted p, p - q and q, and how far the first two increase, (2, S+1)."""
    target = _prefix_sums(np.take_along_axis(p, order, axis=1))
    draft = _prefix_sums(np.take_along_axis(q, order, axis=1))
    sums = np.stack([target, target - draft, draft])
    counts = np.stack([np.sum(inverse < np.inf, axis=1), np.sum(inverse < 1, axis=1)])
    # Residual mass of zero can only be rounding: the target row stands in for it.
    bare = ~(sums[1, np.arange(len(p)), counts[1]] > 0)
    sums[1, bare] = sums[0, bare]
    counts[1, bare] = counts[0, bare]
    return sums, counts


def _places(sums: Floats, counts: Ints) -> npt.NDArray[np.int32]:
    """Place in the sorted row that u = cell/cells draws, from p and from the residual."""
    size = sums.shape[2] - 1
    # A power of two, so that no rounding moves u to another cell.
    cells = 1 << min(2 * size - 1, _MOST_CELLS - 1).bit_length()
    u = np.arange(cells + 1) / cells
    places = np.empty((2, sums.shape[1], cells + 1), np.int32)
    for law, row in np.ndindex(places.shape[:2]):
        count = counts[law, row]
        # Steps as small as a rounding error may go down; a search needs them sorted.
        sorted_sums = np.maximum.accumulate(sums[law, row, :count])
        goals = u * sums[law, row, count]
        places[law, row] = np.searchsorted(sorted_sums, goals, side="right") - 1
    return places
