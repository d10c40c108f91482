"""E[tau] on drawn trees, the coins averaged out: for rules whose law no closed form gives.

Given its tree, a rule that walks down it goes on to each child with a known probability
(``walked``), and one that tests one way after the other stops at each with one: its tests come in
an order that the shape alone decides, so they are taken on thousands of trees at a time. Means
over trees have no more variance than the trees themselves have.
"""

from functools import partial

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.comparing.trees.rows import StateRows
from simverify.comparing.trees.walked import (
    greedy_draft,
    naive,
    of_target,
    recursive_without,
    walked_tails,
)
from simverify.simulators.rao_blackwell import RaoBlackwell
from simverify.trees import ROOT, Drafting, TreeShape
from simverify.verifiers.base import part
from simverify.verifiers.trees.base import TreeVerifier, most_children
from simverify.verifiers.trees.gbv import ranks

PAIRS = 1 << 15
"""Pairs of trees behind an estimate: some .003 either way of a Pr(tau >= l)."""

FEWEST_PAIRS = 1 << 12
"""The same where rows are long, or trees wide: some .01 either way."""

_WORK = 1 << 27
"""Entries of rows that all pairs may read: some seconds."""

_ENTRIES = 1 << 19
"""Entries of rows that are laid out at a time."""

_STREAM = 7
"""Of the generator, so that no other draw of the run is one of these."""


def tree_sample(
    rule: TreeVerifier, drafting: Drafting, rows: StateRows, seed: int
) -> RaoBlackwell | None:
    """Return the means of Pr(tau >= l) and E[tau] over trees; None for a rule without ``tails``.

    None too where a row has fewer tokens than siblings are asked for, so that trees differ in
    shape. The same seed gives the same trees.
    """
    tails, scheme = part(rule.tails), drafting.scheme
    most = most_children(drafting.shape)
    if tails is None or not (scheme.replaced or (rows.draft > 0).sum(axis=1).min() >= most):
        return None
    p, q = rows.target.astype(np.float64), rows.draft.astype(np.float64)
    rng = np.random.default_rng([seed, _STREAM])
    sums, squares = np.zeros((2, drafting.shape.depth + 1))
    size = max(_ENTRIES // (rows.vocab_size * 2), 1)
    each = _WORK // (rows.vocab_size * len(drafting.shape))
    strata = min(max(each, FEWEST_PAIRS), PAIRS)
    for begin in range(0, strata, size):
        pairs = min(size, strata - begin)
        uniforms = rng.random((len(drafting.shape), 2 * pairs))
        tokens = _drawn(drafting, q, uniforms)
        found = tails(drafting.shape, tokens, p, q)
        found = np.column_stack([found, found.sum(axis=1)])
        sums += found.sum(axis=0)
        squares += ((found[:pairs] - found[pairs:]) ** 2).sum(axis=0) / 2
    # Sums of probabilities may round to just above their number.
    ends = np.append(np.ones(drafting.shape.depth), drafting.shape.depth)
    return RaoBlackwell(strata, np.minimum(sums / (2 * strata), ends), squares / strata)


def _drawn(drafting: Drafting, q: Floats, uniforms: Floats) -> Ints:
    """Return the token of each node (nodes, trees): the certain ones, then by inverse transform."""
    tokens = np.empty(uniforms.shape, np.int64)
    each, scheme = np.arange(uniforms.shape[1]), drafting.scheme
    likeliest = np.argsort(-q, axis=1, kind="stable")
    for parent, children in drafting.shape.children.items():
        state = _state(tokens, parent, q)
        row, certain = q[state], scheme.certain(len(children)) if children else 0
        for place, child in enumerate(children):
            if place < certain:
                tokens[child] = likeliest[state, place]
            else:
                sums = np.cumsum(row, axis=1)
                # The last token of positive mass takes what rounding leaves.
                last = row.shape[1] - 1 - np.argmax(row[:, ::-1] > 0, axis=1)
                found = (sums <= (uniforms[child] * sums[:, -1])[:, np.newaxis]).sum(axis=1)
                tokens[child] = np.minimum(found, last)
            if not scheme.replaced:
                row[each, tokens[child]] = 0.0
    return tokens


def _state(tokens: Ints, node: int, q: Floats) -> Ints:
    """Return the index of the row after ``node`` on each tree."""
    states = len(q) - 1
    if node == ROOT:
        return np.full(tokens.shape[1], states)
    found: Ints = tokens[node] % states
    return found


def traversal_tails(
    shape: TreeShape, tokens: Ints, p: Floats, q: Floats, *, replaced: bool = True
) -> Floats:
    """Traversal verification: the leftmost leaf is tested, and deleted where it is rejected."""
    each = np.arange(tokens.shape[1])
    left = {node: list(children) for node, children in shape.children.items()}
    p_of = {ROOT: p[_state(tokens, ROOT, q)]}
    q_of = {ROOT: q[_state(tokens, ROOT, q)]}
    weight = {ROOT: np.ones(len(each))}
    going, tails = np.ones(len(each)), np.zeros((len(each), shape.depth))
    node = ROOT
    while True:
        while left[node]:
            child = left[node][0]
            x = tokens[child]
            ratio = p_of[node][each, x] / q_of[node][each, x]
            weight[child] = np.minimum(weight[node] * ratio, 1.0)
            p_of[child], q_of[child] = (of[_state(tokens, child, q)] for of in (p, q))
            node = child
        if node == ROOT:
            return tails
        tails[:, : shape.depths[node]] += (going * weight[node])[:, np.newaxis]
        going = going * (1 - weight.pop(node))
        p_of.pop(node), q_of.pop(node)
        x, node = tokens[node], shape.parents[node]
        left[node].pop(0)
        rest = np.maximum(weight[node][:, np.newaxis] * p_of[node] - q_of[node], 0.0)
        total = rest.sum(axis=1)
        room = total + 1 - weight[node]
        weight[node] = np.divide(total, room, out=np.ones_like(total), where=room > 0)
        some = total > 0
        p_of[node][some] = rest[some] / total[some, np.newaxis]
        if not replaced and left[node]:
            q_of[node][each, x] = 0.0
            q_of[node] /= q_of[node].sum(axis=1, keepdims=True)


def gbv_tails(shape: TreeShape, tokens: Ints, p: Floats, q: Floats) -> Floats:
    """Greedy multi-path block: the weight of block on the chosen chain is Pr(tau >= l | it)."""
    count, trees = len(shape.children[ROOT]), tokens.shape[1]
    rank, below = np.full(q.shape, -1), np.zeros_like(q)
    for after, (target, draft) in enumerate(zip(p, q, strict=True)):
        order = ranks(target, draft)
        rank[after, order] = np.arange(len(order))
        below[after, order] = np.cumsum(draft[order]) - draft[order]
    chains = [shape.way(node) for node in range(len(shape)) if not shape.children[node]]
    alive = np.ones((count, trees), bool)
    under, mass, weight = np.zeros(trees), np.ones(trees), np.ones(trees)
    joint = np.ones(trees)
    state = np.full(trees, len(q) - 1)
    tails = np.empty((trees, shape.depth))
    for level in range(shape.depth):
        drafted = np.array([tokens[chain[level]] for chain in chains])
        place = np.where(alive, rank[state, drafted], -1)
        x = drafted[place.argmax(axis=0), np.arange(trees)]
        alive &= drafted == x
        low, part = under + mass * below[state, x], mass * q[state, x]
        high = low + part
        # high^K - low^K, without the digits that a difference of near numbers loses.
        chosen = part * sum(high**i * low ** (count - 1 - i) for i in range(count))
        weight = np.minimum(weight * p[state, x] * joint / chosen, 1.0)
        under, mass, joint, state = low, part, chosen, x % (len(q) - 1)
        tails[:, level] = weight
    return tails


traversal_without_tails = partial(traversal_tails, replaced=False)
naive_tails = partial(walked_tails, naive)
greedy_draft_tails = partial(walked_tails, greedy_draft)
recursive_without_tails = partial(walked_tails, recursive_without)
target_tails = partial(walked_tails, of_target)
