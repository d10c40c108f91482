"""Draft trees read wrongly: the rows of another node, or nodes that are not counted.

What is read so is judged by recursive rejection, which is right for independent siblings.

References
----------
.. [1] Miao et al., "SpecInfer", 2023.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.faults.base import Fault
from simverify.trees import ROOT, TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees.base import normalised
from simverify.verifiers.trees.recursive import RECURSIVE

Ints = npt.NDArray[np.integer[Any]]


def shape_of(parents: Ints) -> TreeShape:
    """Return the shape that ``parents`` (n,) make."""
    return TreeShape(tuple(map(int, parents)))


def text_to(shape: TreeShape, tokens: Ints, node: int) -> list[int]:
    """Return the tokens from the first level down to ``node``."""
    return [int(tokens[x]) for x in shape.way(node)]


def parent_row_bonus(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the token after a leaf from the row before it."""
    shape, rows = shape_of(parents), p.copy()
    for leaf in (node for node in range(len(shape)) if not shape.children[node]):
        rows[leaf + 1] = p[shape.parents[leaf] + 1]
    return RECURSIVE.rule(rows, q, tokens, parents, rng)


def unwarped_bonus(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the token after a leaf from the raw row, of which p is the one at temperature 2."""
    shape, rows = shape_of(parents), p.copy()
    for leaf in (node for node in range(len(shape)) if not shape.children[node]):
        rows[leaf + 1] = normalised(p[leaf + 1] ** 2, p[leaf + 1])
    return RECURSIVE.rule(rows, q, tokens, parents, rng)


def previous_level(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Read the target's row after each node one level up, at its parent."""
    late = [0, *(parent + 1 for parent in shape_of(parents).parents)]
    return RECURSIVE.rule(p[late], q, tokens, parents, rng)


def row_of_depth(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Read the target's rows by depth, as if the flattened tree were a chain."""
    return RECURSIVE.rule(p[[0, *shape_of(parents).depths]], q, tokens, parents, rng)


def first_child_draft_row(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Judge children by the draft's row after the first of them, not the row they come from."""
    rows = q.copy()
    for node, children in shape_of(parents).children.items():
        if children:
            rows[node + 1] = q[children[0] + 1]
    return RECURSIVE.rule(p, rows, tokens, parents, rng)


def rejected_row_residual(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the last token from the rows after the last rejected child, not those before it."""
    shape, node = shape_of(parents), ROOT
    while shape.children[node]:
        residual, above = p[node + 1], node
        for child in shape.children[above]:
            x = int(tokens[child])
            chance = residual[x] / q[above + 1][x] if q[above + 1][x] > 0 else 0
            if rng.random() < chance:
                node = child
                break
            residual = normalised(excess(residual, q[above + 1]), p[above + 1])
        if node == above:
            last = shape.children[node][-1]
            residual = excess(p[last + 1], q[last + 1])
            return [*text_to(shape, tokens, node), draw(residual, p[last + 1], rng)]
    return [*text_to(shape, tokens, node), draw(p[node + 1], p[node + 1], rng)]


def nonzero_size(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Take as many nodes as there are tokens other than 0."""
    size = int(np.count_nonzero(np.asarray(tokens)))
    if size == 0:
        return [draw(p[0], p[0], rng)]
    return RECURSIVE.rule(p[: size + 1], q[: size + 1], tokens[:size], parents[:size], rng)


def without_zeros(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Take nodes with token 0 for padding: they are dropped, with all below them."""
    shape = shape_of(parents)
    kept = [node for node in range(len(shape)) if 0 not in text_to(shape, tokens, node)]
    if not kept:
        return [draw(p[0], p[0], rng)]
    number = {ROOT: ROOT, **{node: i for i, node in enumerate(kept)}}
    above = [number[shape.parents[node]] for node in kept]
    rows = [0, *(node + 1 for node in kept)]
    return RECURSIVE.rule(p[rows], q[rows], [int(tokens[node]) for node in kept], above, rng)


TREE_FAULTS = tuple(
    Fault(name, "tree", rule, summary, seen_in, scheme=scheme)
    for name, rule, scheme, summary, seen_in in (
        ("parent-row-bonus", parent_row_bonus, "iid",
         "the token after a leaf is drawn from its parent's row", "synthetic"),
        ("unwarped-bonus", unwarped_bonus, "iid",
         "the token after a leaf is drawn from the raw row, without its temperature",
         "synthetic"),
        ("previous-level-row", previous_level, "iid",
         "the target's row after each node is that of its parent", "synthetic"),
        ("row-by-depth", row_of_depth, "iid",
         "the target's rows are read by depth, as if the tree were a chain",
         "lablup/mlxcel #1214, there an index where the depth was due"),
        ("first-child-draft-row", first_child_draft_row, "iid",
         "children are judged by the draft's row after the first of them", "synthetic"),
        ("rejected-row-residual", rejected_row_residual, "iid",
         "the residual is that of the rows after the rejected node",
         "openvino.genai #4190, on a chain"),
        ("nonzero-tree-size", nonzero_size, "iid",
         "the tree is as large as there are token ids other than 0", "synthetic"),
        ("zero-id-as-padding", without_zeros, "iid",
         "nodes with token id 0 are dropped as padding", "vLLM #28689, in review"),
    )
)  # fmt: skip
