"""Which compiled family serves which rule."""

from collections.abc import Callable
from typing import Any

from simverify.simulators.kernels.tables.markov import MarkovTables
from simverify.simulators.kernels.trees.row_walk import LastChild, RecursiveWithout
from simverify.simulators.trees import walks
from simverify.trees import Drafting

Family = Callable[[MarkovTables, Drafting], Any]
"""``family(tables, drafting)``: what the kernel of a rule reads besides the model and the draft."""


def _greedy_draft(tables: MarkovTables, drafting: Drafting) -> Any:
    if drafting.scheme.name == "last-sampled":
        return walks.greedy_draft(tables, drafting)
    return LastChild()


FAMILIES: dict[str, Family] = {
    "naive": walks.naive,
    "k-seq": walks.k_seq_walk,
    "recursive": walks.recursive,
    "recursive-without-replacement": lambda tables, drafting: RecursiveWithout(),
    "match": walks.by_target,
    "spechub": walks.spechub,
    "greedy-draft": _greedy_draft,
    "tournament": walks.tournament,
    "fixed-tree": walks.by_target,
}


def rows_needed(rule: str, drafting: Drafting) -> int:
    """Return how many rows (V,) a trial of ``rule`` writes to."""
    return 3
