"""Ways down a draft tree judged wrongly: which one is kept, and with what weight.

References
----------
.. [1] Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025.
.. [2] Zhou et al., "Overcoming Joint Intractability with Lossless Hierarchical Speculative
       Decoding", 2026, arXiv:2601.05724.
.. [3] "Greedy Multi-Path Block Verification", 2026, arXiv:2602.16961.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.faults.base import Fault, accepted, finish
from simverify.faults.families.trees import Ints, shape_of, text_to
from simverify.trees import ROOT, TreeShape
from simverify.verifiers import block
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees import gbv
from simverify.verifiers.trees.base import normalised, off


def _ways(shape: TreeShape) -> list[tuple[int, ...]]:
    """Return the way to each leaf, from left to right."""
    return [shape.way(node) for node in range(len(shape)) if not shape.children[node]]


def _along(rows: Array, way: Sequence[int]) -> Array:
    """Return the rows that follow the prefix and each node of ``way``."""
    return rows[[node + 1 for node in (ROOT, *way)]]


def best_of_ways(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Verify the way to each leaf by itself with the token rule, and keep the longest."""
    best: tuple[int, tuple[int, ...]] = (-1, ())
    for way in _ways(shape_of(parents)):
        path = np.array([int(tokens[node]) for node in way])
        tau = accepted(_along(p, way), _along(q, way), path, rng)
        if tau > best[0]:
            best = (tau, way)
    tau, way = best
    path = np.array([int(tokens[node]) for node in way])
    return finish(_along(p, way), _along(q, way), path, tau, rng)


def gbv_own_q(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Choose the best way as GBV does [3], and judge it by q instead of the winner's law."""
    shape = shape_of(parents)
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
    """Return Traversal Verification [1] of siblings without replacement with its own weights."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        shape = shape_of(parents)
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
                return [*text_to(shape, tokens, node), draw(p_of[node], p[node + 1], rng)]
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
    """Return hierarchical speculative decoding [2] of the leftmost way with one cap wrong."""

    def rule(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
        way = _ways(shape_of(parents))[0]
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

WAY_FAULTS = tuple(
    Fault(name, "tree", rule, summary, seen_in, scheme=scheme)
    for name, rule, scheme, summary, seen_in in (
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
         "synthetic; a slip of Zhou et al. 2026"),
    )
)  # fmt: skip
