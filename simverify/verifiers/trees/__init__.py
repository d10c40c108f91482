"""Verification rules for draft trees, one per file: citation, readable rule, law of a step."""

from simverify.checks import pick_name
from simverify.verifiers.base import declared
from simverify.verifiers.trees.base import TreeVerifier

TREE_VERIFIERS = declared(
    __name__,
    __path__,
    TreeVerifier,
    (
        "naive",
        "k-seq",
        "recursive",
        "recursive-without-replacement",
        "match",
        "spechub",
        "greedy-draft",
        "tournament",
        "gbv",
        "traversal",
        "traversal-without-replacement",
        "fixed-tree",
        "hierarchical",
        "tree-monte-carlo",
    ),
)
"""Rules for draft trees by name, in the order in which they are listed."""

__all__ = ["TREE_VERIFIERS", "TreeVerifier", "get_tree_verifier"]


def get_tree_verifier(name: str) -> TreeVerifier:
    """Return the rule for draft trees called ``name``.

    Raises ``UsageError`` that names the nearest rule when there is none.
    """
    return TREE_VERIFIERS[pick_name(name, TREE_VERIFIERS, "rule for draft trees")]
