"""Draft trees: the value that rules, simulators, audits and reports share, and how it is drawn."""

__simverify_role__ = "shared"

from simverify.trees.draft_tree import (
    Drafting,
    DraftTree,
    Growing,
    RowAfter,
    draw_tree,
    law_of_trees,
)
from simverify.trees.schemes import SCHEMES, Scheme, get_scheme
from simverify.trees.shapes import ROOT, TreeShape, draw_on, parse_levels, shape_of_levels

__all__ = [
    "ROOT",
    "SCHEMES",
    "DraftTree",
    "Drafting",
    "Growing",
    "RowAfter",
    "Scheme",
    "TreeShape",
    "draw_on",
    "draw_tree",
    "get_scheme",
    "law_of_trees",
    "parse_levels",
    "shape_of_levels",
]
