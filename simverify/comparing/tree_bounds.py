"""Exact acceptance curves of rules on draft trees, and bounds on the best rule.

The best rule has two bounds: the memoryless optimum and the coupling bound. Both are linear
programs where the trees are few, and closed forms on certain drafts, on a single level and on a
chain. Elsewhere a bound on them is used, and its name says which.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.comparing import curves
from simverify.comparing.trees import StateRows, closed_form_walk, enumerate_law, enumerate_walk
from simverify.models.base import MarkovModel
from simverify.results import ExactCheck
from simverify.simulators.exact import bounds as exact_bounds
from simverify.simulators.run import RaoBlackwell
from simverify.trees import ROOT, Drafting, TreeShape
from simverify.verifiers import VERIFIERS
from simverify.verifiers.base import resolve_part
from simverify.verifiers.trees import TREE_VERIFIERS
from simverify.verifiers.trees.base import TreeVerifier, max_children
from simverify.verifiers.trees.gbv import GBV, ranks

# Pr(tau >= l) of a rule that walks down the tree, given the tree: many trees at a time.
#
# At a node a walking rule emits a token, and goes on where a child has it. So the node's siblings
# and rows give the probability that the walk goes on to each child; the probability to reach a node
# is the product of those above it.


EmissionFunction = Callable[[Floats, Floats, Ints], Floats]
"""``emits(p, q, siblings)``: the law (trees, V) of the token that a rule emits at a node, from its
rows (trees, V) and the tokens of its children (k, trees)."""


def walk_tails(
    emits: EmissionFunction, shape: TreeShape, tokens: Ints, p: Floats, q: Floats
) -> Floats:
    """Return Pr(tau >= l | tree), (trees, depth), from ``tokens`` (nodes, trees) and the rows."""
    each = np.arange(tokens.shape[1])
    reach = {ROOT: np.ones(len(each))}
    tails = np.zeros((len(each), shape.depth))
    for node, children in shape.children.items():
        if not children:
            continue
        state = _row_index(tokens, node, q)
        siblings = tokens[list(children)]
        law = emits(p[state], q[state], siblings)
        for place, child in enumerate(children):
            # Of equal siblings the walk goes on at the first.
            first = (siblings[:place] != siblings[place]).all(axis=0)
            reach[child] = reach[node] * law[each, siblings[place]] * first
            tails[:, shape.depths[child] - 1] += reach[child]
    return np.minimum(tails, 1.0)


def naive_law(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Naive with siblings: the first child is tested, then the residual drawn."""
    return _tested_law(siblings[0], p, q, np.maximum(p - q, 0.0), p)


def greedy_draft_law(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Greedy draft: the last child is tested as a sample of q off the others."""
    each, last = np.arange(len(p)), q.copy()
    others = np.zeros(p.shape, bool)
    for tokens in siblings[:-1]:
        last[each, tokens] = 0.0
        others[each, tokens] = True
    last = _normalize_rows(last, np.zeros_like(last))
    left = np.where(others, p, np.maximum(p - last, 0.0))
    # No sample without the others: a token that came twice.
    left = np.where(last[each, siblings[-1]][:, np.newaxis] > 0, left, p)
    return _tested_law(siblings[-1], p, last, left, p)


def recursive_without_law(p: Floats, q: Floats, siblings: Ints) -> Floats:
    """Recursive rejection without replacement: each child against what is left of p and of q."""
    each, going = np.arange(len(p)), np.ones(len(p))
    law, residual = np.zeros_like(p), p
    for tokens in siblings:
        accepted = _acceptance_probabilities(tokens, residual, q)
        law[each, tokens] += going * accepted
        going = going * (1.0 - accepted)
        residual = _normalize_rows(np.maximum(residual - q, 0.0), p)
        q = q.copy()
        q[each, tokens] = 0.0
        q = _normalize_rows(q, np.zeros_like(q))
    return law + going[:, np.newaxis] * residual


def _tested_law(tokens: Ints, p: Floats, q: Floats, left: Floats, otherwise: Floats) -> Floats:
    """Return the law where ``tokens`` (trees,) are tested, and after a rejection ``left`` drawn."""
    accepted = _acceptance_probabilities(tokens, p, q)
    law = (1.0 - accepted)[:, np.newaxis] * _normalize_rows(left, otherwise)
    law[np.arange(len(p)), tokens] += accepted
    return law


def _acceptance_probabilities(tokens: Ints, p: Floats, q: Floats) -> Floats:
    """Return min(1, p/q) of the tokens, 0 where q is."""
    p, q = (rows[np.arange(len(rows)), tokens] for rows in (p, q))
    return np.minimum(np.divide(p, q, out=np.zeros_like(p), where=q > 0), 1.0)


def _normalize_rows(weights: Floats, otherwise: Floats) -> Floats:
    """Return rows divided by their sums, those of ``otherwise`` where a sum is zero."""
    total = weights.sum(axis=1, keepdims=True)
    rows: Floats = np.divide(weights, total, out=otherwise.copy(), where=total > 0)
    return rows


# E[tau] on drawn trees, the coins averaged out: for rules whose law has no closed form.
#
# Given its tree, a rule that walks down it goes on to each child with a known probability
# (:func:`walk_tails`). One that tests one path after the other stops at each with a known
# probability; the shape alone decides the order of its tests, so thousands of trees are tested at a
# time. Means over trees have no more variance than the trees themselves.


MAX_TREE_PAIRS = 1 << 15
"""Pairs of trees behind an estimate: some .003 either way of a Pr(tau >= l)."""

MIN_TREE_PAIRS = 1 << 12  # the same where rows are long, or trees wide: some .01 either way
_MAX_ROW_ENTRIES = 1 << 27  # entries of rows that all pairs may read: some seconds
_CHUNK_ENTRIES = 1 << 19  # entries of rows that are laid out at a time
_GENERATOR_STREAM = 7  # of the generator, so that no other draw of the run is one of these


def tree_sample(
    rule: TreeVerifier, drafting: Drafting, rows: StateRows, seed: int
) -> RaoBlackwell | None:
    """Return the means of Pr(tau >= l) and E[tau] over trees; None for a rule without ``tails``.

    None too where a row has fewer tokens than there are siblings, so that trees differ in shape.
    The same seed gives the same trees.
    """
    tails, scheme = resolve_part(rule.tails), drafting.scheme
    most = max_children(drafting.shape)
    if tails is None or not (scheme.replaced or (rows.draft > 0).sum(axis=1).min() >= most):
        return None
    p, q = rows.target.astype(np.float64), rows.draft.astype(np.float64)
    rng = np.random.default_rng([seed, _GENERATOR_STREAM])
    sums, squares = np.zeros((2, drafting.shape.depth + 1))
    size = max(_CHUNK_ENTRIES // (rows.vocab_size * 2), 1)
    each = _MAX_ROW_ENTRIES // (rows.vocab_size * len(drafting.shape))
    strata = min(max(each, MIN_TREE_PAIRS), MAX_TREE_PAIRS)
    for begin in range(0, strata, size):
        pairs = min(size, strata - begin)
        uniforms = rng.random((len(drafting.shape), 2 * pairs))
        tokens = _draw_tokens(drafting, q, uniforms)
        values = tails(drafting.shape, tokens, p, q)
        values = np.column_stack([values, values.sum(axis=1)])
        sums += values.sum(axis=0)
        squares += ((values[:pairs] - values[pairs:]) ** 2).sum(axis=0) / 2
    # Sums of probabilities may round to just above their number.
    ends = np.append(np.ones(drafting.shape.depth), drafting.shape.depth)
    return RaoBlackwell(strata, np.minimum(sums / (2 * strata), ends), squares / strata)


def _draw_tokens(drafting: Drafting, q: Floats, uniforms: Floats) -> Ints:
    """Return the token of each node (nodes, trees): the certain ones, then by inverse transform."""
    tokens = np.empty(uniforms.shape, np.int64)
    each, scheme = np.arange(uniforms.shape[1]), drafting.scheme
    likeliest = np.argsort(-q, axis=1, kind="stable")
    for parent, children in drafting.shape.children.items():
        state = _row_index(tokens, parent, q)
        row, certain = q[state], scheme.certain(len(children)) if children else 0
        for place, child in enumerate(children):
            if place < certain:
                tokens[child] = likeliest[state, place]
            else:
                sums = np.cumsum(row, axis=1)
                # The last token of positive mass takes what rounding leaves.
                last = row.shape[1] - 1 - np.argmax(row[:, ::-1] > 0, axis=1)
                index = (sums <= (uniforms[child] * sums[:, -1])[:, np.newaxis]).sum(axis=1)
                tokens[child] = np.minimum(index, last)
            if not scheme.replaced:
                row[each, tokens[child]] = 0.0
    return tokens


def _row_index(tokens: Ints, node: int, q: Floats) -> Ints:
    """Return the index of the row after ``node`` on each tree."""
    states = len(q) - 1
    if node == ROOT:
        return np.full(tokens.shape[1], states)
    state: Ints = tokens[node] % states
    return state


def traversal_tails(
    shape: TreeShape, tokens: Ints, p: Floats, q: Floats, *, replaced: bool = True
) -> Floats:
    """Traversal verification: the leftmost leaf is tested, and deleted where it is rejected."""
    each = np.arange(tokens.shape[1])
    left = {node: list(children) for node, children in shape.children.items()}
    p_of = {ROOT: p[_row_index(tokens, ROOT, q)]}
    q_of = {ROOT: q[_row_index(tokens, ROOT, q)]}
    weight = {ROOT: np.ones(len(each))}
    going, tails = np.ones(len(each)), np.zeros((len(each), shape.depth))
    node = ROOT
    while True:
        while left[node]:
            child = left[node][0]
            x = tokens[child]
            ratio = p_of[node][each, x] / q_of[node][each, x]
            weight[child] = np.minimum(weight[node] * ratio, 1.0)
            p_of[child], q_of[child] = (of[_row_index(tokens, child, q)] for of in (p, q))
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
naive_tails = partial(walk_tails, naive_law)
greedy_draft_tails = partial(walk_tails, greedy_draft_law)
recursive_without_tails = partial(walk_tails, recursive_without_law)
# Match, and the walk on a fixed tree: the token follows the target's row.
target_tails = partial(walk_tails, lambda p, q, siblings: p)


# The exact acceptance curve of a rule on draft trees, by the best method that reaches it.


_LEVEL_ADDITIONS = 1 << 14
"""Roundings of a level: differences of powers in a closed form lose a few digits."""

MAX_WRITTEN_TEXTS = 100_000  # most texts V^depth of which a law is written out


@dataclass(frozen=True, eq=False)
class TreeCurve:
    """The exact law of a rule on a model: each part None where it is not known.

    ``nodes``: Pr(the way kept goes through it), for each node. ``check``: its own law against
    the target's.
    """

    curve: curves.AcceptanceCurve | None = None
    nodes: tuple[float, ...] | None = None
    check: ExactCheck | None = None


def tree_curve(
    rule: TreeVerifier, drafting: Drafting, model: MarkovModel, rows: StateRows, *, seed: int = 0
) -> TreeCurve:
    """Return the exact law of ``rule`` as far as it is known.

    All trees and coins are enumerated where they are few. The steps of a rule that walks are
    written out, or come as a closed form. Rules that are block verification on a chain have
    its law there, and some a ``curve`` of their own; else the trees of ``seed`` give the means of
    those that have ``tails``.
    """
    method, scope = "paths", f"every completed output of a call, {drafting.shape.depth + 1} tokens"
    law = enumerate_law(rule, drafting, rows)
    if law is None:
        method, scope = "steps", "every step down the tree that can be taken"
        law = enumerate_walk(rule, drafting, rows)
    if law is not None and law.nodes is not None:
        check = curves.exact_check(method, rows.rational, scope, law.deviation, law.tv)
        curve = enclose_levels(_rule_levels(rule, law.curve), "enumeration")
        return TreeCurve(curve, tuple(map(float, law.nodes)), check)
    if (closed := closed_form_walk(rule, drafting, rows)) is not None:
        return TreeCurve(enclose_levels(_rule_levels(rule, closed.curve), "closed-form"))
    if rule.block_on_chain and drafting.shape.is_chain:
        return TreeCurve(chain_curve("block", model, drafting.shape.depth))
    curve_by = resolve_part(rule.curve)
    if curve_by is not None and (rule_curve := curve_by(model, drafting, rows)) is not None:
        return TreeCurve(rule_curve)
    if (sample := tree_sample(rule, drafting, rows, seed)) is not None:
        return TreeCurve(curves.sampled_curve(sample, drafting.shape.depth))
    return TreeCurve()


def chain_curve(rule: str, model: MarkovModel, gamma: int) -> curves.AcceptanceCurve:
    """Return the curve of a rule for one draft of ``gamma`` tokens."""
    return curves.acceptance_curves(model, {rule: VERIFIERS[rule]}, gamma, seed=0, threads=2)[rule]


def enclose_levels(levels: Sequence[Any], method: curves.Method) -> curves.AcceptanceCurve:
    """Enclose a curve, which is exact where its levels are fractions."""
    return curves.enclose_curve(method, levels, additions=_LEVEL_ADDITIONS)


def _rule_levels(rule: TreeVerifier, levels: Sequence[Any]) -> Sequence[Any]:
    # A fraction of a rounded root would look exact, and is not.
    return levels if rule.rational else [float(level) for level in levels]


def gbv_curve(
    model: MarkovModel, drafting: Drafting, rows: StateRows
) -> curves.AcceptanceCurve | None:
    """Return the curve of greedy multi-path block: block's, against the law of the chosen chain.

    f(x^l) = min(f(x^(l-1)) p(x_l), (A + Q)^K - A^K), Q the draft's mass of x^l and A that of
    all beginnings ranked below; a level is the sum of f. None where the texts are too many.
    """
    if rows.vocab_size**drafting.shape.depth > MAX_WRITTEN_TEXTS:
        return None
    count = len(drafting.shape.children[-1])
    curve = [0 * rows.target[0, 0]] * drafting.shape.depth
    one = 1 + curve[0]

    def below(state: int, kept: Any, under: Any, mass: Any, level: int) -> None:
        if level == len(curve):
            return
        p, q = rows.target[state], rows.draft[state]
        for x in ranks(p, q):
            joint = (under + mass * q[x]) ** count - under**count
            f = min(kept * p[x], joint)
            curve[level] = curve[level] + f
            if f > 0:
                below(x % rows.states, f, under, mass * q[x], level + 1)
            under = under + mass * q[x]

    below(-1, one, 0 * one, one, 0)
    return enclose_levels(curve, "enumeration")


def traversal_curve(
    model: MarkovModel, drafting: Drafting, rows: StateRows
) -> curves.AcceptanceCurve | None:
    """Return the curve of traversal on chains from the root, a mixture of block's curves.

    None on other shapes, or where siblings are not independent.
    """
    shape = drafting.shape
    if drafting.scheme.name != "iid" or not GBV.fits(shape):
        return None
    bounds = exact_bounds.traversal_bounds(model, len(shape.children[ROOT]), shape.depth)
    return curves.AcceptanceCurve.between("dp", bounds.lower, bounds.upper)


# Bounds on the best rule on draft trees: the memoryless optimum, the coupling bound.


OptimumMethod = Literal["linear-programme", "closed-form", "coupling", "counting"]

MAX_TEXTS = 3_000
"""Most drafted texts V^n, on all nodes of a tree, for its linear programs: a second or two."""

MAX_COUNTED_PAIRS = 100_000  # most pairs of a node and a text V^depth that are counted one by one
MAX_SIBLING_ORDERS = 50_000  # most ordered siblings V^k of which a level's law is listed


@dataclass(frozen=True, eq=False)
class BestRule:
    """``value``: E[tau] of the best rule, found as ``by`` says; a ``bound`` may not be reached."""

    value: float
    by: OptimumMethod
    bound: bool = False


@dataclass(frozen=True, eq=False)
class TreeBounds:
    """Bounds that no lossless rule exceeds on trees so drafted.

    ``memoryless``: no rule without state; ``coupling``: no rule at all, in one call. ``levels``:
    bounds on Pr(tau >= l), l = 1..depth, of a rule without state, and ``of_any`` of any rule, where
    they differ.
    """

    memoryless: BestRule
    coupling: BestRule
    levels: curves.AcceptanceCurve
    of_any: curves.AcceptanceCurve | None = None


def compute_tree_bounds(drafting: Drafting, model: MarkovModel, rows: StateRows) -> TreeBounds:
    """Return the best known bounds for ``drafting`` on ``model``."""
    shape, scheme = drafting.shape, drafting.scheme
    exact: list[Any] | None = None
    if all(scheme.certain(k) >= k for k in shape.child_counts[1:]):
        fixed = closed_form_walk(TREE_VERIFIERS["fixed-tree"], drafting, rows)
        exact = None if fixed is None else fixed.curve
    if exact is None and shape.is_chain:
        # Greedy's first call attains the coupling (Sun et al. 2025, theorem 3).
        block, greedy = (chain_curve(name, model, shape.depth) for name in ("block", "greedy"))
        best = BestRule(block.expected, "closed-form")
        return TreeBounds(best, BestRule(greedy.expected, "closed-form"), block, greedy)
    if exact is None and shape.depth == 1 and _has_listable_law(drafting, rows):
        exact = [_first_level(drafting, rows)]
    if exact is not None:
        curve = enclose_levels(exact, "closed-form")
        best = BestRule(curve.expected, "closed-form")
        return TreeBounds(best, best, curve)
    levels = _coupling_levels(drafting, model, rows)
    if rows.vocab_size ** len(shape) <= MAX_TEXTS:
        # The programs' own rounding must not lift them above the counted bound.
        most = levels.expected_upper
        coupling = min(exact_bounds.coupling_bound(drafting, model.target, model.draft).value, most)
        memoryless = min(
            exact_bounds.memoryless_optimum(drafting, model.target, model.draft).value, coupling
        )
        return TreeBounds(
            BestRule(memoryless, "linear-programme"), BestRule(coupling, "linear-programme"), levels
        )
    counted = BestRule(levels.expected_upper, "counting", bound=True)
    return TreeBounds(counted, counted, levels)


def _first_level(drafting: Drafting, rows: StateRows) -> Any:
    k = len(drafting.shape.children[ROOT])
    return exact_bounds.best_hit(rows.target[-1], rows.draft[-1], k, drafting.scheme)


def _coupling_levels(
    drafting: Drafting, model: MarkovModel, rows: StateRows
) -> curves.AcceptanceCurve:
    """Bound Pr(tau >= l) by the target's own text being in the tree, for the best coupling.

    At the first level that is the optimal transport. A text o of l tokens is accepted with
    probability min(Pr(o), Pr(o is in the tree)) at most. Where texts are too many to count, the
    second is at most the number of nodes times the draft's Pr(o), for independent siblings; on
    chains from the root it follows from their first tokens.
    """
    shape, scheme = drafting.shape, drafting.scheme
    listable = _has_listable_law(drafting, rows)
    bounds: list[Any]
    if rows.vocab_size**shape.depth * len(shape) <= MAX_COUNTED_PAIRS and listable:
        bounds = _counted_levels(drafting, rows)
    elif scheme.replaced:
        bounds = _scaled_levels(drafting, model)
    elif _is_chains_from_root(drafting) and listable:
        # A text is on one of the chains at most, by its first token.
        first = scheme.included(model.draft_start, len(shape.children[ROOT]))
        scaled = replace(model, draft_start=first, rational=None)
        bounds = exact_bounds.tree_bounds(scaled, shape.depth, "greedy").upper.tolist()
    else:
        bounds = [1.0] * shape.depth
    if listable:
        first = _first_level(drafting, rows)
        bounds = [min(first, level) for level in bounds]
    # No level is reached without those above it.
    bounds = list(itertools.accumulate(bounds, min))
    curve = enclose_levels(bounds, "closed-form")
    return replace(curve, lower=np.zeros_like(curve.upper), expected_lower=0.0)


def _has_listable_law(drafting: Drafting, rows: StateRows) -> bool:
    """Whether the law of a node's siblings is short, or has a closed form."""
    if drafting.scheme.replaced:
        return True
    return bool(rows.vocab_size ** drafting.shape.child_counts[-1] <= MAX_SIBLING_ORDERS)


def _is_chains_from_root(drafting: Drafting) -> bool:
    """Whether the root alone has several children, and all others one sample of q."""
    children = drafting.shape.children.items()
    single = all(len(below) <= 1 for node, below in children if node != ROOT)
    return single and drafting.scheme.certain(1) == 0


def _counted_levels(drafting: Drafting, rows: StateRows) -> list[Any]:
    """Sum min(Pr(o), Pr(o is in the tree)) over the texts of each length."""
    shape, scheme = drafting.shape, drafting.scheme
    known: dict[tuple[int, int], Any] = {}

    def marginals(state: int, k: int) -> Any:
        """Pr(sibling j is y), (k, V): of siblings without replacement only one can be y."""
        if (state, k) not in known:
            q = rows.draft[state]
            law = np.array([q] * k)
            if not scheme.replaced:
                law = 0 * law
                for siblings, mass in scheme.law(q, k).items():
                    for j, token in enumerate(siblings):
                        law[j, token] += mass
            known[state, k] = law
        return known[state, k]

    def inside(node: int, state: int, text: tuple[int, ...]) -> Any:
        """Pr(``text`` is a way below ``node``)."""
        if not text:
            return 1
        children = shape.children[node]
        if not children:
            return 0
        law, after = marginals(state, len(children)), text[0] % rows.states
        each = [
            law[j, text[0]] * inside(child, after, text[1:])
            for j, child in enumerate(children)
            if law[j, text[0]] > 0
        ]
        return 1 - math.prod(1 - x for x in each) if scheme.replaced else sum(each)

    levels: list[Any] = []
    texts: dict[tuple[int, ...], Any] = {(): 1}
    for _ in range(shape.depth):
        texts = {
            (*text, token): mass * p
            for text, mass in texts.items()
            for token, p in enumerate(rows.after(rows.target)(text))
            if p > 0
        }
        levels.append(sum(min(mass, inside(ROOT, -1, text)) for text, mass in texts.items()))
    return levels


def _scaled_levels(drafting: Drafting, model: MarkovModel) -> list[float]:
    """Bound each level by the sum of min(Pr(o), n Ms(o)), n the nodes at that level."""
    depths = drafting.shape.depths
    nodes = [depths.count(level) for level in range(1, drafting.shape.depth + 1)]
    bounds: dict[int, Floats] = {}
    for n in nodes:
        if n not in bounds:
            longest = len(nodes) - nodes[::-1].index(n)
            scaled = replace(model, draft_start=n * model.draft_start, rational=None)
            bounds[n] = exact_bounds.tree_bounds(scaled, longest, "greedy").upper
    return [float(bounds[n][level]) for level, n in enumerate(nodes)]
