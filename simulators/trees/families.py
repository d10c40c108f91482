"""Which compiled family serves which rule: what it reads besides model and draft, and its room."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.simulators.kernels.tables.markov import MarkovTables
from simverify.simulators.kernels.trees.gbv import Gbv
from simverify.simulators.kernels.trees.hierarchical import Hierarchical
from simverify.simulators.kernels.trees.row_walk import LastChild, RecursiveWithout
from simverify.simulators.kernels.trees.traversal import Traversal, TraversalWithout
from simverify.simulators.kernels.trees.tree_monte_carlo import TreeMonteCarlo
from simverify.simulators.trees import walks
from simverify.trees import Drafting


@dataclass(frozen=True)
class Family:
    """``build(tables, drafting)``: what the kernel reads; ``rows(drafting)``: rows of scratch."""

    build: Callable[[MarkovTables, Drafting], Any]
    rows: Callable[[Drafting], int] = lambda drafting: 1


def _greedy_draft(tables: MarkovTables, drafting: Drafting) -> Any:
    if drafting.scheme.name == "last-sampled":
        return walks.greedy_draft(tables, drafting)
    return LastChild()


def _gbv(tables: MarkovTables, drafting: Drafting) -> Gbv:
    rows, size = tables.draft.shape
    rank, order = np.empty((2, rows, size), np.int32)
    sums, drawn = np.zeros((rows, size + 1)), np.empty(rows, np.int64)
    for r, (p, q) in enumerate(zip(tables.target, tables.draft, strict=True)):
        # As the rule ranks them, by numpy: from the worst to the best, equal ones by id.
        able = np.flatnonzero(q > 0)
        drawn[r] = len(able)
        ranked = able[np.argsort(p[able] / q[able], kind="stable")]
        order[r] = np.concatenate([ranked, np.flatnonzero(q == 0)])
        rank[r, order[r]] = np.arange(size)
        sums[r, 1:] = np.cumsum(q[order[r]])
    return Gbv(rank, order, sums, drawn)


FAMILIES = {
    "naive": Family(walks.naive),
    "k-seq": Family(walks.k_seq_walk),
    "recursive": Family(walks.recursive),
    "recursive-without-replacement": Family(lambda *_: RecursiveWithout(), lambda _: 3),
    "match": Family(walks.by_target),
    "spechub": Family(walks.spechub),
    "greedy-draft": Family(_greedy_draft, lambda _: 2),
    "tournament": Family(walks.tournament),
    "gbv": Family(_gbv),
    "traversal": Family(lambda *_: Traversal()),
    "traversal-without-replacement": Family(
        lambda *_: TraversalWithout(), lambda drafting: 2 * (drafting.shape.depth + 1)
    ),
    "fixed-tree": Family(walks.by_target),
    "hierarchical": Family(lambda *_: Hierarchical()),
    "tree-monte-carlo": Family(lambda *_: TreeMonteCarlo()),
}
