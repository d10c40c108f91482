"""Pr(tau >= l) of a rule that walks down the tree, given the tree: many trees at a time.

At a node a walking rule emits a token, and goes on where a child has it. So the node's siblings
and rows say with which probability the walk goes on to each child, and what reaches a node is the
product of those above it.
"""

from collections.abc import Callable

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.trees import ROOT, TreeShape

Emits = Callable[[Floats, Floats, Ints], Floats]
"""``emits(p, q, siblings)``: the law (trees, V) of the token that a rule emits at a node, from its
rows (trees, V) and the tokens of its children (k, trees)."""


def walked_tails(emits: Emits, shape: TreeShape, tokens: Ints, p: Floats, q: Floats) -> Floats:
    """Return Pr(tau >= l | tree), (trees, depth), from ``tokens`` (nodes, trees) and the rows."""
    each, states = np.arange(tokens.shape[1]), len(q) - 1
    reach = {ROOT: np.ones(len(each))}
    tails = np.zeros((len(each), shape.depth))
    for node, children in shape.children.items():
        if not children:
            continue
        state = np.full(len(each), states) if node == ROOT else tokens[node] % states
        siblings = tokens[list(children)]
        law = emits(p[state], q[state], siblings)
        for place, child in enumerate(children):
            # Of equal siblings the walk goes on at the first.
            first = (siblings[:place] != siblings[place]).all(axis=0)
            reach[child] = reach[node] * law[each, siblings[place]] * first
            tails[:, shape.depths[child] - 1] += reach[child]
    return np.minimum(tails, 1.0)


def of_target(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Match, and the walk on a fixed tree: the token follows the target's row."""
    return p


def naive(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Naive with siblings: the first child is tested, then the residual drawn."""
    return _tested(siblings[0], p, q, np.maximum(p - q, 0.0), p)


def greedy_draft(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Greedy draft: the last child is tested as a sample of q off the others."""
    each, last = np.arange(len(p)), q.copy()
    others = np.zeros(p.shape, bool)
    for tokens in siblings[:-1]:
        last[each, tokens] = 0.0
        others[each, tokens] = True
    last = _normalised(last, np.zeros_like(last))
    left = np.where(others, p, np.maximum(p - last, 0.0))
    # No sample of what is off the others: a token that came twice.
    left = np.where(last[each, siblings[-1]][:, np.newaxis] > 0, left, p)
    return _tested(siblings[-1], p, last, left, p)


def recursive_without(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Recursive rejection without replacement: each child against what is left of p and of q."""
    each, going = np.arange(len(p)), np.ones(len(p))
    law, residual = np.zeros_like(p), p
    for tokens in siblings:
        kept = _accepted(tokens, residual, q)
        law[each, tokens] += going * kept
        going = going * (1.0 - kept)
        residual = _normalised(np.maximum(residual - q, 0.0), p)
        q = q.copy()
        q[each, tokens] = 0.0
        q = _normalised(q, np.zeros_like(q))
    return law + going[:, np.newaxis] * residual


def _tested(tokens: Ints, p: Floats, q: Floats, left: Floats, otherwise: Floats) -> Floats:
    """Return the law where ``tokens`` (trees,) are tested, and after a rejection ``left`` drawn."""
    kept = _accepted(tokens, p, q)
    law = (1.0 - kept)[:, np.newaxis] * _normalised(left, otherwise)
    law[np.arange(len(p)), tokens] += kept
    return law


def _accepted(tokens: Ints, p: Floats, q: Floats) -> Floats:
    """Return min(1, p/q) of the tokens, 0 where q is."""
    p, q = (rows[np.arange(len(rows)), tokens] for rows in (p, q))
    return np.minimum(np.divide(p, q, out=np.zeros_like(p), where=q > 0), 1.0)


def _normalised(weights: Floats, otherwise: Floats) -> Floats:
    """Return rows divided by their sums, those of ``otherwise`` where a sum is zero."""
    total = weights.sum(axis=1, keepdims=True)
    found: Floats = np.divide(weights, total, out=otherwise.copy(), where=total > 0)
    return found
