"""Verification rules for draft trees, one per file: citation, readable rule, law of a step."""

from simverify.checks import pick
from simverify.verifiers.trees.base import TreeVerifier
from simverify.verifiers.trees.fixed_tree import FIXED_TREE
from simverify.verifiers.trees.gbv import GBV
from simverify.verifiers.trees.greedy_draft import GREEDY_DRAFT
from simverify.verifiers.trees.hierarchical import HIERARCHICAL
from simverify.verifiers.trees.k_seq import K_SEQ
from simverify.verifiers.trees.match import MATCH_TREE
from simverify.verifiers.trees.naive import NAIVE
from simverify.verifiers.trees.recursive import RECURSIVE, RECURSIVE_WITHOUT
from simverify.verifiers.trees.spechub import SPECHUB
from simverify.verifiers.trees.tournament import TOURNAMENT
from simverify.verifiers.trees.traversal import TRAVERSAL, TRAVERSAL_WITHOUT
from simverify.verifiers.trees.tree_monte_carlo import TREE_MONTE_CARLO

TREE_VERIFIERS = {
    v.name: v
    for v in (
        NAIVE, K_SEQ, RECURSIVE, RECURSIVE_WITHOUT, MATCH_TREE, SPECHUB, GREEDY_DRAFT,
        TOURNAMENT, GBV, TRAVERSAL, TRAVERSAL_WITHOUT, FIXED_TREE,
        HIERARCHICAL, TREE_MONTE_CARLO,
    )
}  # fmt: skip

__all__ = ["TREE_VERIFIERS", "TreeVerifier", "get_tree_verifier"]


def get_tree_verifier(name: str) -> TreeVerifier:
    """Return the rule for draft trees called ``name``.

    Raises ``UsageError`` that names the nearest rule when there is none.
    """
    return TREE_VERIFIERS[pick(name, TREE_VERIFIERS, "rule for draft trees")]
