"""Faults of rules for draft trees: siblings judged wrongly, and trees read wrongly.

References
----------
.. [1] Miao et al., "SpecInfer", 2023: siblings are independent samples of q.
.. [2] Chen et al., "Sequoia", 2024: siblings without replacement.
.. [3] Sun et al., "SpecTr", 2023 (K-SEQ).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.faults.base import Fault
from simverify.trees import ROOT, TreeShape
from simverify.verifiers.base import Array, draw, excess
from simverify.verifiers.trees import recursive
from simverify.verifiers.trees.base import exclude_tokens, normalised, walk_rule
from simverify.verifiers.trees.recursive import RECURSIVE

# Siblings judged wrongly: the children of one node and what they leave of p [1]_ [2]_ [3]_.


def unnormalised_sibling_residual(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge the next sibling by (r - q)+ as it is, which sums to less than 1."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = excess(residual, q)
    return draw(residual, p, rng)


def residual_taken_twice(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Subtract q twice for each rejected sibling."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(excess(residual, q), q), p)
    return draw(residual, p, rng)


def one_coin(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge all siblings with one coin, as is right for certain ones along p alone."""
    residual, coin = p, rng.random()
    for x in siblings:
        if q[x] > 0 and coin < residual[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def equal_sibling(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Give a token that was rejected its p/q again where it is drafted twice."""
    residual = p
    for i, x in enumerate(siblings):
        judged = p if x in siblings[:i] else residual
        if q[x] > 0 and rng.random() < judged[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def sorted_by_target(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge the siblings from the target's likeliest on: the first is no sample of q then."""
    likeliest = sorted(siblings, key=lambda x: (-p[x], x))
    return recursive.one_step(p, q, likeliest, rng)


def rho_one(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """K-SEQ with rho = 1 whatever K: more is accepted of a token than p has of it [3]."""
    one = np.minimum(p, q)
    beta = one.sum()
    for x in siblings:
        if q[x] > 0 and rng.random() < p[x] / q[x]:
            return x
    accepted = one * ((1 - (1 - beta) ** len(siblings)) / beta) if beta > 0 else one
    return draw(excess(p, accepted), p, rng)


def stale_q(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge siblings without replacement by a q that still holds the rejected ones.

    To take them out of q without renormalising it has the same law: the residual is 0 there.
    """
    return recursive.one_step(p, q, siblings, rng)


def removed_too_early(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Take the rejected sibling out of q first, and the residual with what is left."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        q = exclude_tokens(q, [x])
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


def top_k_as_sampled(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Judge tokens that are certain, as the likeliest of q, as if they had been sampled from it."""
    return recursive.one_step_without(p, q, siblings, rng)


def certain_as_sampled(p: Array, q: Array, siblings: list[int], rng: Any) -> int:
    """Test the last sibling, the only one that is sampled, by q with the certain ones in it."""
    x, certain = siblings[-1], siblings[:-1]
    left = excess(p, q)
    left[certain] = p[certain]
    if q[x] > 0 and rng.random() < p[x] / q[x]:
        return x
    return draw(left, p, rng)


SIBLING_FAULTS = tuple(
    Fault(name, "tree", walk_rule(step), summary, seen_in, scheme=scheme)
    for name, step, scheme, summary, seen_in in (
        (
            "unnormalised-sibling-residual",
            unnormalised_sibling_residual,
            "iid",
            "the residual is not renormalised between siblings",
            "synthetic; a slip of SpecInfer's rule (Miao et al. 2023)",
        ),
        (
            "twice-taken-residual",
            residual_taken_twice,
            "iid",
            "q is subtracted twice for each rejected sibling",
            "synthetic",
        ),
        (
            "one-coin-for-siblings",
            one_coin,
            "iid",
            "one coin judges all siblings, though they are samples",
            "synthetic; a slip of target-only tree kernels taken for sampled drafts",
        ),
        (
            "equal-sibling-at-q",
            equal_sibling,
            "iid",
            "a token drafted twice gets min(1, p/q) again instead of its residual",
            "synthetic",
        ),
        (
            "siblings-sorted-by-target",
            sorted_by_target,
            "iid",
            "siblings are judged from the target's likeliest on",
            "synthetic",
        ),
        (
            "k-seq-rho-one",
            rho_one,
            "iid",
            "K-SEQ with rho = 1: tokens are accepted more often than p has them",
            "synthetic; a slip of SpecTr's K-SEQ (Sun et al. 2023)",
        ),
        (
            "stale-sibling-q",
            stale_q,
            "without-replacement",
            "q keeps the rejected siblings, or loses them and is not renormalised",
            "llama.cpp, examples/speculative/speculative.cpp",
        ),
        (
            "sibling-removed-too-early",
            removed_too_early,
            "without-replacement",
            "the residual is taken with a q that has lost the rejected sibling already",
            "synthetic; a slip of Sequoia's rule (Chen et al. 2024)",
        ),
        (
            "top-k-taken-as-sampled",
            top_k_as_sampled,
            "top-k",
            "certain siblings are judged by the softmax that they are the likeliest of",
            "apple/ml-recurrent-drafter #6; llama.cpp, examples/speculative/speculative.cpp",
        ),
        (
            "hub-taken-as-sampled",
            top_k_as_sampled,
            "argmax-first",
            "the first sibling, the likeliest token of q, is judged as a sample of q",
            "synthetic",
        ),
        (
            "last-sibling-at-full-q",
            certain_as_sampled,
            "last-sampled",
            "the last sibling is tested by q, not by q without the certain ones",
            "synthetic; a slip of greedy draft sampling (Hu et al. 2025)",
        ),
    )
)


# Trees read wrongly: the rows of another node, or nodes that are not counted.
#
# These are judged by recursive rejection, which is right for independent siblings [1]_.


Ints = npt.NDArray[np.integer[Any]]


def shape_of(parents: Ints) -> TreeShape:
    """Return the shape that ``parents`` (n,) make."""
    return TreeShape(tuple(map(int, parents)))


def tokens_down_to(shape: TreeShape, tokens: Ints, node: int) -> list[int]:
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
            return [*tokens_down_to(shape, tokens, node), draw(residual, p[last + 1], rng)]
    return [*tokens_down_to(shape, tokens, node), draw(p[node + 1], p[node + 1], rng)]


def nonzero_size(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Take as many nodes as there are tokens other than 0."""
    size = int(np.count_nonzero(np.asarray(tokens)))
    if size == 0:
        return [draw(p[0], p[0], rng)]
    return RECURSIVE.rule(p[: size + 1], q[: size + 1], tokens[:size], parents[:size], rng)


def without_zeros(p: Array, q: Array, tokens: Ints, parents: Ints, rng: Any) -> list[int]:
    """Take nodes with token 0 for padding: they are dropped, with all below them."""
    shape = shape_of(parents)
    kept = [node for node in range(len(shape)) if 0 not in tokens_down_to(shape, tokens, node)]
    if not kept:
        return [draw(p[0], p[0], rng)]
    number = {ROOT: ROOT, **{node: i for i, node in enumerate(kept)}}
    above = [number[shape.parents[node]] for node in kept]
    rows = [0, *(node + 1 for node in kept)]
    return RECURSIVE.rule(p[rows], q[rows], [int(tokens[node]) for node in kept], above, rng)


TREE_FAULTS = tuple(
    Fault(name, "tree", rule, summary, seen_in, scheme=scheme)
    for name, rule, scheme, summary, seen_in in (
        (
            "parent-row-bonus",
            parent_row_bonus,
            "iid",
            "the token after a leaf is drawn from its parent's row",
            "synthetic",
        ),
        (
            "unwarped-bonus",
            unwarped_bonus,
            "iid",
            "the token after a leaf is drawn from the raw row, without its temperature",
            "synthetic",
        ),
        (
            "previous-level-row",
            previous_level,
            "iid",
            "the target's row after each node is that of its parent",
            "synthetic",
        ),
        (
            "row-by-depth",
            row_of_depth,
            "iid",
            "the target's rows are read by depth, as if the tree were a chain",
            "lablup/mlxcel #1214, there an index where the depth was due",
        ),
        (
            "first-child-draft-row",
            first_child_draft_row,
            "iid",
            "children are judged by the draft's row after the first of them",
            "synthetic",
        ),
        (
            "rejected-row-residual",
            rejected_row_residual,
            "iid",
            "the residual is that of the rows after the rejected node",
            "openvino.genai #4190, on a chain",
        ),
        (
            "nonzero-tree-size",
            nonzero_size,
            "iid",
            "the tree is as large as there are token ids other than 0",
            "synthetic",
        ),
        (
            "zero-id-as-padding",
            without_zeros,
            "iid",
            "nodes with token id 0 are dropped as padding",
            "vLLM #28689, in review",
        ),
    )
)
