"""Draft trees: the value that rules, simulators, audits and reports share, and how it is drawn."""

__simverify_role__ = "shared"


from simverify.trees.draft_tree import (
    ROOT,
    SCHEMES,
    Drafting,
    DraftTree,
    GrowingTree,
    RowAfter,
    Scheme,
    TreeShape,
    draw_tree,
    enumerate_trees,
    get_scheme,
    parse_levels,
    shape_of_levels,
    tree_text,
)

__all__ = [
    "ROOT",
    "SCHEMES",
    "DraftTree",
    "Drafting",
    "GrowingTree",
    "RowAfter",
    "Scheme",
    "TreeShape",
    "draw_tree",
    "enumerate_trees",
    "get_scheme",
    "parse_levels",
    "shape_of_levels",
    "tree_text",
]
