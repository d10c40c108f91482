"""Draft trees judged wrongly along their ways: rows of another node, a wrong way, a wrong weight.

References
----------
.. [1] Miao et al., "SpecInfer", 2023, algorithm 2.
.. [2] Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025.
.. [3] Zhou et al., "Overcoming Joint Intractability with Lossless Hierarchical Speculative
       Decoding", 2026, arXiv:2601.05724.
.. [4] "Greedy Multi-Path Block Verification", 2026, arXiv:2602.16961.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.faults.base import Fault, accepted, finish
from simverify.trees import ROOT, TreeShape
from simverify.verifiers import block
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees import gbv
from simverify.verifiers.trees.base import normalised, off
from simverify.verifiers.trees.recursive import RECURSIVE

Ints = Sequence[int]


def _shape(parents: Ints) -> TreeShape:
    return TreeShape(tuple(map(int, parents)))


def _ways(shape: TreeShape) -> list[tuple[int, ...]]:
    """Return the way to each leaf, from left to right."""
    return [shape.way(node) for node in range(len(shape)) if not shape.children[node]]


def _along(rows: Array, way: Ints) -> Array:
    """Return the rows that follow the prefix and each node of ``way``."""
    return rows[[node + 1 for node in (ROOT, *way)]]


def parent_row_bonus(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the token after a leaf from the row before it."""
    shape, rows = _shape(parents), p.copy()
    for leaf in (node for node in range(len(shape)) if not shape.children[node]):
        rows[leaf + 1] = p[shape.parents[leaf] + 1]
    return RECURSIVE.rule(rows, q, tokens, parents, rng)


def unwarped_bonus(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the token after a leaf from the raw row, of which p is the one at temperature 2."""
    shape, rows = _shape(parents), p.copy()
    for leaf in (node for node in range(len(shape)) if not shape.children[node]):
        rows[leaf + 1] = normalised(p[leaf + 1] ** 2, p[leaf + 1])
    return RECURSIVE.rule(rows, q, tokens, parents, rng)


def previous_level(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Read the target's row after each node one level up, at its parent."""
    late = [0, *(parent + 1 for parent in _shape(parents).parents)]
    return RECURSIVE.rule(p[late], q, tokens, parents, rng)


def row_of_depth(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Read the target's rows by depth, as if the flattened tree were a chain."""
    return RECURSIVE.rule(p[[0, *_shape(parents).depths]], q, tokens, parents, rng)


def first_child_draft_row(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Judge children by the draft's row after the first of them, not the row they come from."""
    rows = q.copy()
    for node, children in _shape(parents).children.items():
        if children:
            rows[node + 1] = q[children[0] + 1]
    return RECURSIVE.rule(p, rows, tokens, parents, rng)


def rejected_row_residual(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Draw the last token from the rows after the last rejected child, not those before it."""
    shape, node = _shape(parents), ROOT
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
            return [*_text(shape, tokens, node), draw(residual, p[last + 1], rng)]
    return [*_text(shape, tokens, node), draw(p[node + 1], p[node + 1], rng)]


def _text(shape: TreeShape, tokens: Ints, node: int) -> list[int]:
    return [int(tokens[x]) for x in shape.way(node)]


def nonzero_size(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Take as many nodes as there are tokens other than 0."""
    size = int(np.count_nonzero(np.asarray(tokens)))
    if size == 0:
        return [draw(p[0], p[0], rng)]
    return RECURSIVE.rule(p[: size + 1], q[: size + 1], tokens[:size], parents[:size], rng)


def best_of_ways(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Verify the way to each leaf by itself with the token rule, and keep the longest."""
    best: tuple[int, tuple[int, ...]] = (-1, ())
    for way in _ways(_shape(parents)):
        path = np.array([int(tokens[node]) for node in way])
        tau = accepted(_along(p, way), _along(q, way), path, rng)
        if tau > best[0]:
            best = (tau, way)
    tau, way = best
    path = np.array([int(tokens[node]) for node in way])
    return finish(_along(p, way), _along(q, way), path, tau, rng)


def gbv_own_q(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Choose the best way as GBV does [4], and judge it by q instead of the winner's law."""
    shape = _shape(parents)
    ways = _ways(shape) if gbv.GBV.fits(shape) else _ways(shape)[:1]
    at = ROOT
    for level in range(len(ways[0])):
        ranked = gbv.ranks(p[at + 1], q[at + 1])
        best = max((int(tokens[way[level]]) for way in ways), key=ranked.index)
        ways = [way for way in ways if int(tokens[way[level]]) == best]
        at = ways[0][level]
    path = np.array([int(tokens[node]) for node in ways[0]])
    return block.verify(_along(p, ways[0]), _along(q, ways[0][:-1]), path, rng)


Reweigh = Callable[[Array, Array, Any, Any, int], tuple[Array, Any]]
"""``(p, q, weight, child's weight, its token)``: what of p and of the weight is left."""


def _traversal(reweigh: Reweigh) -> Callable[..., list[int]]:
    """Return Traversal Verification [2] of siblings without replacement with its own weights."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        shape = _shape(parents)
        left = {node: list(children) for node, children in shape.children.items()}
        p_of, q_of = ({node: rows[node + 1] for node in left} for rows in (p, q))
        weight: dict[int, Any] = {ROOT: 1}
        node = ROOT
        while True:
            while left[node]:
                above, node = node, left[node][0]
                x = int(tokens[node])
                own = q_of[above][x]
                weight[node] = min(1, weight[above] * p_of[above][x] / own) if own > 0 else 0
            if node == ROOT or rng.random() < weight[node]:
                return [*_text(shape, tokens, node), draw(p_of[node], p[node + 1], rng)]
            child, x, node = node, int(tokens[node]), shape.parents[node]
            left[node].pop(0)
            residual, weight[node] = reweigh(p_of[node], q_of[node], weight[node], weight[child], x)
            p_of[node], q_of[node] = normalised(residual, p_of[node]), off(q_of[node], [x])

    return rule


def weight_of_child(p: Array, q: Array, weight: Any, rejected: Any, x: int) -> tuple[Array, Any]:
    """Take block's residual with the weight of the rejected child, not of its parent."""
    residual = excess(rejected * p, q)
    room = residual.sum() + 1 - rejected
    return residual, residual.sum() / room if room > 0 else 1


def weight_by_ratio(p: Array, q: Array, weight: Any, rejected: Any, x: int) -> tuple[Array, Any]:
    """Take S over what q has left without the rejected token for the parent's weight."""
    residual = excess(weight * p, q)
    rest = q.sum() - q[x]
    return residual, min(1, residual.sum() / rest) if rest > 0 else 0


def _hierarchical(*, last_is_capped: bool) -> Callable[..., list[int]]:
    """Return hierarchical speculative decoding [3] of the leftmost way with one cap wrong."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        way = _ways(_shape(parents))[0]
        p, q = _along(p, way), _along(q, way)
        path = [int(tokens[node]) for node in way]
        ratio: Any = 1
        most: Any = 1
        capped = [ratio]
        for i, x in enumerate(path):
            ratio = ratio * p[i][x] / q[i][x] if q[i][x] > 0 else 0 * ratio
            # Before its own ratio counts, the cap of a prefix is that of shorter ones.
            capped.append(ratio / (most if last_is_capped else max(most, ratio)))
            most = max(most, ratio)
        if rng.random() < (capped[-1] if last_is_capped else ratio):
            return [*path, draw(p[-1], p[-1], rng)]
        for t in reversed(range(len(path))):
            due = capped[t] * p[t]
            gained, lost = excess(due, q[t]).sum(), excess(q[t], due).sum()
            larger = max(gained, lost)
            if t == 0 or larger == 0 or rng.random() < gained / larger:
                break
        return [*path[:t], draw(excess(due, q[t]), p[t], rng)]

    return rule


_SUBSPEC = "brian030128/subspec_v2, specdecodes/models/utils/traversal_verification.py"
_HSD = "ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm_clean.py"

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
        ("best-of-several-ways", best_of_ways, "iid",
         "each way is verified by itself, and the longest is kept",
         "apple/ml-recurrent-drafter, recurrent_drafting.py; fms-extras #12"),
        ("gbv-own-q", gbv_own_q, "iid",
         "greedy multi-path block with the draft's own q, not the law of the best path",
         "synthetic; a slip of arXiv:2602.16961"),
        ("traversal-weight-of-child", _traversal(weight_of_child), "without-replacement",
         "Traversal Verification leaves a residual with the rejected child's weight",
         "synthetic; a slip of Weng et al. 2025"),
        ("traversal-ratio-weight", _traversal(weight_by_ratio), "without-replacement",
         "Traversal Verification with weight S over the rest of q", _SUBSPEC),
        ("uncapped-hierarchical", _hierarchical(last_is_capped=False), "iid",
         "hierarchical speculative decoding whose last test is against p/q uncapped", _HSD),
        ("shorter-cap-hierarchical", _hierarchical(last_is_capped=True), "iid",
         "hierarchical speculative decoding whose cap counts shorter prefixes alone",
         "synthetic; Zhou et al. 2026, taken by the letter"),
    )
)  # fmt: skip
