"""From a model to the arrays its kernels read."""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.models.base import MarkovModel, Model
from simverify.simulators.kernels.alias import build_alias
from simverify.simulators.kernels.markov import MarkovTables

Floats = npt.NDArray[np.float64]


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
    return MarkovTables(
        target=p,
        ratio=ratio,
        alias_cut=cut,
        alias_token=alias,
        order=order.astype(np.int32),
        rank=np.argsort(order, axis=1).astype(np.int32),
        inverse=inverse,
        guide=_guide(inverse),
        target_sums=_prefix_sums(np.take_along_axis(p, order, axis=1)),
        draft_sums=_prefix_sums(np.take_along_axis(q, order, axis=1)),
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
