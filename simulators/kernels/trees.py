"""Kernels for draft trees: the loop over trials, the drafting schemes, and every rule.

The type of a rule's tables (a family) chooses its kernel when the loop is compiled.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.extending import overload

from simverify.simulators.kernels.access import advance, correct, draft, mass, ratio, start
from simverify.simulators.kernels.chains import LARGEST, count
from simverify.simulators.kernels.philox import (
    ACCEPT,
    CONTEXT,
    CORRECTION,
    DRAFT,
    PIT,
    fill_tile,
    pick,
)

# The interface of a rule to the loop over trees: one generic name, one implementation per family.
#
# A family is a named tuple of arrays, computed once from a model and a shape; its type chooses the
# implementation when the loop is compiled, as the type of a model's tables does in ``access``.
# Formulas and citations stand with the readable rules in ``simverify.verifiers.trees``.


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Family:
    """What a rule's ``kernel`` names: how the tuple that :func:`judges` knows it by is made.

    ``build(tables, drafting)`` returns it, from the model's tables; ``rows(drafting)``: how many
    rows of scratch its implementation needs.
    """

    build: Callable[[Any, Any], Any]
    rows: Callable[[Any], int] = lambda drafting: 1


class Scratch(NamedTuple):
    """Room that one thread's trials write to, one after the other."""

    ints: Ints  # (3, levels + siblings)
    floats: Floats  # (4, levels + siblings)
    rows: Floats  # (as many as the family needs, V)


def judge(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    """Draft and judge the tree of column ``t``.

    ``states`` int64 (depth+1, trials) has the state of the prefix in row 0. The kept tokens are
    written to ``tokens`` int64 (depth, trials) and the states after them to ``states``.
    ``u_draft``, ``u_accept`` float64 (n or more, trials) are uniforms by node, ``u_last`` float64
    (depth+1 or more, trials) by level. Returns (tau, last token).

    A node is drafted when it is first looked at. Its uniform has an address of its own, so the
    tree is the one that would have been drafted at once, and the law the same.
    """
    raise NotImplementedError


def judges(family: type) -> Callable[[Any], Any]:
    """Register the decorated function as :func:`judge` for rules of ``family``."""

    def register(function: Any) -> Any:
        def choose(rule: Any, *_: Any) -> Any:
            return function if getattr(rule, "instance_class", None) is family else None

        # numba compares the signatures of the generic name and of its implementation.
        choose.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        overload(judge, jit_options={"error_model": "numpy", "_nrt": False})(choose)
        return function

    return register


# Drafting schemes, compiled: the children of a node, one after the other.


class Drafts(NamedTuple):
    """A shape of n nodes and its scheme. Nodes are counted from 1 here; 0 is the root."""

    first: Ints  # (n+2,) the children of node i are child[first[i]:first[i+1]]
    child: Ints  # (n,)
    parent: Ints  # (n+1,)
    certain: Ints  # (n+1,) how many of a node's children are the likeliest of q, for certain
    fixed: npt.NDArray[np.int32]  # (S+1, most of these, V at most) the likeliest tokens of each row
    replaced: bool  # whether the others are independent samples


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw_from(weights, u):
    """Token drawn from ``weights`` (V,) by the uniform ``u``; -1 where all are zero."""
    total = 0.0
    for x in range(weights.shape[0]):
        total += weights[x]
    goal = u * total
    below = 0.0
    found = np.int64(-1)
    for x in range(weights.shape[0]):
        if weights[x] > 0.0:
            found = np.int64(x)
            below += weights[x]
            if goal < below:
                break
    return found


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def sibling(tables, drafts, state, node, j, before, left, u):
    """Token of child ``j`` of ``node`` by the uniform ``u``; -1 where the row has no more.

    ``before`` int64 (j,) are the siblings drafted so far. ``left`` float64 (V,) is what they leave
    of q from call to call, where the scheme draws no token twice.
    """
    certain = drafts.certain[node]
    if j < certain:
        return np.int64(drafts.fixed[state, j]) if j < drafts.fixed.shape[1] else np.int64(-1)
    if drafts.replaced or j == 0:
        return draft(tables, state, u)
    if j == max(certain, 1):
        for x in range(left.shape[0]):
            left[x] = tables.draft[state, x]
        for i in range(j):
            left[before[i]] = 0.0
    else:
        left[before[j - 1]] = 0.0
    return draw_from(left, u)


# Rules that walk down the tree by tables: O(1) for each child that is looked at.
#
# Whether a child is accepted depends on its row, its place and its token alone, and what is drawn
# after the last rejection on the row alone; so both are tabled once per model.


class Residuals(NamedTuple):
    """Alias tables of what is drawn where no child is accepted, by law and row."""

    cut: Floats  # (laws, S+1, V)
    other: Tokens  # (laws, S+1, V)


class Walk(NamedTuple):
    """Children are tested in turn, each against a tabled probability."""

    kind: Ints  # (n+1,) which kind a node is: one per number of children
    test: Ints  # (kinds, most children) which table tests the child in this place; -1: none
    accept: Floats  # (tables, S+1, V) probability that a token is accepted
    after: Ints  # (kinds,) which law follows rejections; -1: the target
    residuals: Residuals


class Tournament(NamedTuple):
    """The best child alone is tested."""

    kind: Ints  # (n+1,) as in Walk
    after: Ints  # (kinds,) as in Walk; the test has the same number
    rank: Tokens  # (S+1, V) place of each token, the best last
    accept: Floats  # (laws, S+1, V)
    residuals: Residuals


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw_residual(tables, residuals, law, state, u):
    """Token of a tabled law, or of the target where ``law`` is -1, by the uniform ``u``."""
    if law < 0:
        return correct(tables, state, 1.0, 0.0, u)
    row, which = np.uintp(state), np.uintp(law)
    scaled = u * residuals.cut.shape[2]
    column = np.int64(scaled)
    other = np.int64(residuals.other[which, row, np.uintp(column)])
    return pick(scaled - column < residuals.cut[which, row, np.uintp(column)], column, other)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def below(drafts, begin, count, before, token):
    """First of ``count`` drafted children that has ``token``, 0 if none has."""
    for j in range(count):
        if before[j] == token:
            return drafts.child[begin + j]
    return np.int64(0)


@judges(Walk)
def judge_walk(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    before = scratch.ints[0]
    state = states[0, t]
    node = np.int64(0)
    level = 0
    while True:
        begin = drafts.first[node]
        kind = rule.kind[node]
        y = np.int64(-1)
        drafted = 0
        for j in range(drafts.first[node + 1] - begin):
            child = drafts.child[begin + j]
            u = u_draft[child - 1, t]
            x = sibling(tables, drafts, state, node, j, before, scratch.rows[0], u)
            if x < 0:
                break
            before[j] = x
            drafted += 1
            test = rule.test[kind, j]
            if test >= 0 and u_accept[child - 1, t] < rule.accept[test, state, x]:
                y = x
                break
        if y < 0:
            y = draw_residual(tables, rule.residuals, rule.after[kind], state, u_last[level, t])
        # An earlier child may have the token as well, and a residual may be one of them.
        node = below(drafts, begin, drafted, before, y)
        if node == 0:
            return level, y
        tokens[level, t] = y
        level += 1
        state = advance(tables, state, y)
        states[level, t] = state


@judges(Tournament)
def judge_tournament(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    before = scratch.ints[0]
    state = states[0, t]
    node = np.int64(0)
    level = 0
    while True:
        begin = drafts.first[node]
        count = drafts.first[node + 1] - begin
        law = rule.after[rule.kind[node]]
        y = np.int64(-1)
        for j in range(count):
            u = u_draft[drafts.child[begin + j] - 1, t]
            x = sibling(tables, drafts, state, node, j, before, scratch.rows[0], u)
            before[j] = x
            if y < 0 or rule.rank[state, x] > rule.rank[state, y]:
                y = x
        # The coin of the first child serves for the group.
        if y < 0 or not (u_accept[drafts.child[begin] - 1, t] < rule.accept[law, state, y]):
            y = draw_residual(tables, rule.residuals, law, state, u_last[level, t])
        node = below(drafts, begin, count, before, y)
        if node == 0:
            return level, y
        tokens[level, t] = y
        level += 1
        state = advance(tables, state, y)
        states[level, t] = state


# Rules that walk down the tree and read whole rows: their chances depend on which siblings fell.
#
# A child costs O(V), and a node that is not looked at nothing.


class RecursiveWithout(NamedTuple):
    """Children one by one, and q loses each that is rejected; three rows of scratch."""


class LastChild(NamedTuple):
    """The last child alone is tested, as a sample of q off the others; two rows of scratch."""


RECURSIVE_WITHOUT = Family(lambda tables, drafting: RecursiveWithout(), lambda drafting: 3)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def copy_row(row, out):
    """Write ``row`` (V,) to ``out``."""
    for x in range(out.shape[0]):
        out[x] = row[x]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def without(q, tokens, count, out):
    """Write q (V,) without ``tokens`` (count,), renormalised; returns whether any is left."""
    copy_row(q, out)
    for i in range(count):
        out[tokens[i]] = 0.0
    total = 0.0
    for x in range(out.shape[0]):
        total += out[x]
    if total > 0.0:
        for x in range(out.shape[0]):
            out[x] /= total
    return total > 0.0


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def take_excess(weight, residual, q):
    """Make of ``residual`` (V,) what ``weight`` times it exceeds q (V,) by; returns the sum."""
    total = 0.0
    for x in range(residual.shape[0]):
        residual[x] = max(weight * residual[x] - q[x], 0.0)
        total += residual[x]
    return total


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw_or_target(tables, state, weights, u):
    """Token drawn from ``weights`` (V,), or from the target where all are zero."""
    y = draw_from(weights, u)
    return correct(tables, state, 1.0, 0.0, u) if y < 0 else y


@judges(RecursiveWithout)
def judge_recursive(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    before = scratch.ints[0]
    left, residual, off = scratch.rows[0], scratch.rows[1], scratch.rows[2]
    state = states[0, t]
    node = np.int64(0)
    level = 0
    while True:
        begin = drafts.first[node]
        y = np.int64(-1)
        drafted = 0
        for j in range(drafts.first[node + 1] - begin):
            child = drafts.child[begin + j]
            u = u_draft[child - 1, t]
            x = sibling(tables, drafts, state, node, j, before, left, u)
            if x < 0:
                break
            before[j] = x
            drafted += 1
            if j == 0:
                copy_row(tables.target[state], residual)
                copy_row(tables.draft[state], off)
            if off[x] > 0.0 and u_accept[child - 1, t] < residual[x] / off[x]:
                y = x
                break
            total = take_excess(1.0, residual, off)
            if total > 0.0:
                for v in range(residual.shape[0]):
                    residual[v] /= total
            else:
                copy_row(tables.target[state], residual)
            without(off, before[j : j + 1], 1, off)
        if y < 0:
            if drafted == 0:
                y = correct(tables, state, 1.0, 0.0, u_last[level, t])
            else:
                y = draw_or_target(tables, state, residual, u_last[level, t])
        node = below(drafts, begin, drafted, before, y)
        if node == 0:
            return level, y
        tokens[level, t] = y
        level += 1
        state = advance(tables, state, y)
        states[level, t] = state


@judges(LastChild)
def judge_last(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    before = scratch.ints[0]
    left, last = scratch.rows[0], scratch.rows[1]
    state = states[0, t]
    node = np.int64(0)
    level = 0
    while True:
        begin = drafts.first[node]
        drafted = 0
        for j in range(drafts.first[node + 1] - begin):
            u = u_draft[drafts.child[begin + j] - 1, t]
            x = sibling(tables, drafts, state, node, j, before, left, u)
            if x < 0:
                break
            before[j] = x
            drafted += 1
        y = np.int64(-1)
        if drafted > 0:
            x = before[drafted - 1]
            coin = u_accept[drafts.child[begin + drafted - 1] - 1, t]
            without(tables.draft[state], before, drafted - 1, last)
            if last[x] > 0.0:
                if coin < tables.target[state, x] / last[x]:
                    y = x
                else:
                    copy_row(tables.target[state], left)
                    take_excess(1.0, left, last)
                    y = draw_or_target(tables, state, left, u_last[level, t])
        if y < 0:
            y = correct(tables, state, 1.0, 0.0, u_last[level, t])
        node = below(drafts, begin, drafted, before, y)
        if node == 0:
            return level, y
        tokens[level, t] = y
        level += 1
        state = advance(tables, state, y)
        states[level, t] = state


# Greedy multi-path block verification: the best of K chains, then block against its law.
#
# The chosen chain begins with x^i with probability (A + Q)^K - A^K. Written as Q times a sum of
# products of A and A + Q it keeps its digits where Q is far below A, as it soon is.


class Gbv(NamedTuple):
    """The order of tokens by p/q, row by row."""

    rank: Tokens  # (S+1, V) place of each token, the best last; tokens of q = 0 last of all
    order: Tokens  # (S+1, V) the tokens in that order
    sums: Floats  # (S+1, V+1) prefix sums of q in that order
    drawn: Ints  # (S+1,) how many tokens q can draw


def _build(tables: Any, drafting: Any) -> Gbv:
    rows, size = tables.draft.shape
    rank, order = np.empty((2, rows, size), np.int32)
    sums, drawn = np.zeros((rows, size + 1)), np.empty(rows, np.int64)
    for r, (p, q) in enumerate(zip(tables.target, tables.draft, strict=True)):
        # As the rule ranks them, by numpy: from the worst to the best, equal ones by id.
        able = np.flatnonzero(q > 0)
        drawn[r] = len(able)
        ranked = able[np.argsort(p[able] / q[able], kind="stable")]
        order[r] = np.concatenate([ranked, np.flatnonzero(q == 0)])
        rank[r, order[r]] = np.arange(size)
        sums[r, 1:] = np.cumsum(q[order[r]])
    return Gbv(rank, order, sums, drawn)


GBV = Family(_build)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def steps(low, high, k):
    """Return (high^k - low^k) / (high - low), as the sum of high^i low^(k-1-i)."""
    total = 1.0
    power = 1.0
    for _ in range(k - 1):
        power *= low
        total = total * high + power
    return total


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def excess_row(rule, tables, state, weight, chains, under, joint, out):
    """Write max(weight p - r, 0) to ``out`` (V,), r the law of the chosen chain; returns its sum.

    ``joint`` is the probability that a chain begins as the chosen one, ``under`` that it begins
    with anything worse.
    """
    whole = steps(under, under + joint, chains)
    total = 0.0
    drawn = rule.drawn[state]
    for place in range(out.shape[0]):
        x = rule.order[state, place]
        law = 0.0
        if place < drawn:
            low = under + joint * rule.sums[state, place]
            q = tables.draft[state, x]
            law = q * (steps(low, low + joint * q, chains) / whole)
        out[x] = max(weight * tables.target[state, x] - law, 0.0)
        total += out[x]
    return total


@judges(Gbv)
def judge_gbv(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    depth = tokens.shape[0]
    chains = drafts.first[1]
    ways, drafted = scratch.ints[0], scratch.ints[1]
    weight, under, joint = scratch.floats[0], scratch.floats[1], scratch.floats[2]
    row = scratch.rows[0]
    remaining = chains
    for i in range(chains):
        ways[i] = drafts.child[i]
    weight[0], under[0], joint[0] = 1.0, 0.0, 1.0
    for level in range(depth):
        state = states[level, t]
        # Chains that began otherwise are not looked at again.
        best = np.int64(-1)
        for i in range(remaining):
            drafted[i] = draft(tables, state, u_draft[ways[i] - 1, t])
            if best < 0 or rule.rank[state, drafted[i]] > rule.rank[state, best]:
                best = drafted[i]
        kept = 0
        for i in range(remaining):
            if drafted[i] == best:
                # On to the next node of the chain; beyond the last, the last.
                first = drafts.first[ways[i]]
                more = drafts.first[ways[i] + 1] > first
                ways[kept] = drafts.child[first] if more else ways[i]
                kept += 1
        remaining = kept
        low = under[level] + joint[level] * rule.sums[state, rule.rank[state, best]]
        here = joint[level] * tables.draft[state, best]
        share = steps(low, low + here, chains) / steps(
            under[level], under[level] + joint[level], chains
        )
        weight[level + 1] = min(weight[level] * ratio(tables, state, best) / share, 1.0)
        under[level + 1], joint[level + 1] = low, here
        tokens[level, t] = best
        states[level + 1, t] = advance(tables, state, best)
    # Block verification of the chosen chain; its nodes' uniforms are its coins.
    node = ways[0]
    tau = depth
    u = u_last[0, t]
    if u_accept[node - 1, t] < weight[depth]:
        return np.int64(depth), correct(tables, states[depth, t], 1.0, 0.0, u)
    while True:
        tau -= 1
        node = drafts.parent[node]
        # Its chance is never above the weight, so most rows are not read.
        if tau > 0 and not u_accept[node - 1, t] < weight[tau]:
            continue
        state = states[tau, t]
        left = excess_row(rule, tables, state, weight[tau], chains, under[tau], joint[tau], row)
        room = left + 1.0 - weight[tau]
        if tau == 0 or room <= 0.0 or u_accept[node - 1, t] * room < left:
            return np.int64(tau), draw_or_target(tables, state, row, u)


# Hierarchical speculative decoding: from the end of a chain, each prefix by its branches.


class Hierarchical(NamedTuple):
    """Needs nothing but the model."""


HIERARCHICAL = Family(lambda tables, drafting: Hierarchical())


@judges(Hierarchical)
def judge_hierarchical(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    depth = tokens.shape[0]
    capped = scratch.floats[0]
    joint = most = capped[0] = 1.0
    for i in range(depth):
        state = states[i, t]
        tokens[i, t] = draft(tables, state, u_draft[i, t])
        states[i + 1, t] = advance(tables, state, tokens[i, t])
        joint = min(joint * ratio(tables, state, tokens[i, t]), LARGEST)
        most = max(most, joint)
        capped[i + 1] = joint / most
    u = u_last[0, t]
    if u_accept[depth - 1, t] < capped[depth]:
        return depth, correct(tables, states[depth, t], 1.0, 0.0, u)
    tau = depth - 1
    while tau > 0:
        gained = mass(tables, states[tau, t], capped[tau], 1.0)
        # Both rows sum to 1, so what q exceeds the target by follows.
        larger = max(gained, gained + 1.0 - capped[tau])
        if larger <= 0.0 or u_accept[tau - 1, t] * larger < gained:
            break
        tau -= 1
    return np.int64(tau), correct(tables, states[tau, t], capped[tau], 1.0, u)


# Traversal verification: from the leaves up, the leftmost leaf first.
#
# What is left of a node's target after rejections, times the node's weight, is again of the form
# max(alpha p - beta q, 0) as long as q stays what it is: two numbers a level then, O(log V) a node.
# Without replacement q loses tokens, and the rows on the way down to the node are kept instead.


class Traversal(NamedTuple):
    """Siblings are independent samples."""


class TraversalWithout(NamedTuple):
    """Siblings without replacement; two rows of scratch for each level and for the root."""


TRAVERSAL = Family(lambda tables, drafting: Traversal())
TRAVERSAL_WITHOUT = Family(
    lambda tables, drafting: TraversalWithout(), lambda drafting: 2 * (drafting.shape.depth + 1)
)


@judges(Traversal)
def judge_traversal(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    # By level, of the node that is looked at: itself, how many of its children fell, its weight,
    # and the law max(alpha p - beta q, 0), which divided by `room` is the weight times what is
    # left of the target's row.
    nodes, fallen = scratch.ints[0], scratch.ints[1]
    weight, alpha, beta, room = scratch.floats
    level = 0
    node = np.int64(0)
    nodes[0] = fallen[0] = 0
    weight[0] = alpha[0] = room[0] = 1.0
    beta[0] = 0.0
    while True:
        # Below a weight of 0 all weights are 0.
        while weight[level] > 0.0 and fallen[level] < drafts.first[node + 1] - drafts.first[node]:
            node = drafts.child[drafts.first[node] + fallen[level]]
            state = states[level, t]
            x = draft(tables, state, u_draft[node - 1, t])
            here = (alpha[level] * ratio(tables, state, x) - beta[level]) / room[level]
            tokens[level, t] = x
            level += 1
            states[level, t] = advance(tables, state, x)
            nodes[level] = node
            fallen[level] = 0
            weight[level] = alpha[level] = min(max(here, 0.0), 1.0)
            beta[level] = 0.0
            room[level] = 1.0
        if node == 0 or u_accept[node - 1, t] < weight[level]:
            # Of a target that lost nothing the scale plays no part.
            scale = alpha[level] if beta[level] > 0.0 else 1.0
            return level, correct(tables, states[level, t], scale, beta[level], u_last[0, t])
        level -= 1
        node = nodes[level]
        fallen[level] += 1
        alpha[level] /= room[level]
        beta[level] = beta[level] / room[level] + 1.0
        left = mass(tables, states[level, t], alpha[level], beta[level])
        space = left + 1.0 - weight[level]
        # No room at all can only be rounding: the target was the draft, and nothing is rejected.
        room[level] = space if space > 0.0 else 1.0
        weight[level] = left / space if space > 0.0 else 1.0


@judges(TraversalWithout)
def judge_traversal_without(
    rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch
):
    nodes, fallen = scratch.ints[0], scratch.ints[1]
    weight = scratch.floats[0]
    level = 0
    node = np.int64(0)
    nodes[0] = fallen[0] = 0
    weight[0] = 1.0
    while True:
        while weight[level] > 0.0 and fallen[level] < drafts.first[node + 1] - drafts.first[node]:
            child = drafts.child[drafts.first[node] + fallen[level]]
            state = states[level, t]
            # Rows are copied when the first child falls: weight times target, and q.
            p, q = scratch.rows[2 * level], scratch.rows[2 * level + 1]
            if fallen[level] == 0:
                x = draft(tables, state, u_draft[child - 1, t])
                here = weight[level] * ratio(tables, state, x)
            else:
                x = draw_from(q, u_draft[child - 1, t])
                if x < 0:
                    break
                here = p[x] / q[x]
            node = child
            tokens[level, t] = x
            level += 1
            states[level, t] = advance(tables, state, x)
            nodes[level] = node
            fallen[level] = 0
            weight[level] = min(here, 1.0)
        if node == 0 or u_accept[node - 1, t] < weight[level]:
            state = states[level, t]
            if fallen[level] == 0:
                return level, correct(tables, state, 1.0, 0.0, u_last[0, t])
            return level, draw_or_target(tables, state, scratch.rows[2 * level], u_last[0, t])
        level -= 1
        node = nodes[level]
        p, q = scratch.rows[2 * level], scratch.rows[2 * level + 1]
        if fallen[level] == 0:
            copy_row(tables.target[states[level, t]], p)
            copy_row(tables.draft[states[level, t]], q)
            for v in range(p.shape[0]):
                p[v] *= weight[level]
        fallen[level] += 1
        left = 0.0
        for v in range(p.shape[0]):
            p[v] = max(p[v] - q[v], 0.0)
            left += p[v]
        space = left + 1.0 - weight[level]
        weight[level] = left / space if space > 0.0 else 1.0
        if space > 0.0:
            for v in range(p.shape[0]):
                p[v] /= space
        without(q, tokens[level : level + 1, t], 1, q)


# One call per trial on a draft tree: draft, judge, emit, count.
#
# Draw addresses (``philox``): node n is drafted by draw n of stream DRAFT and judged by draw n of
# ACCEPT; a token that is not a tested draft takes draw l of CORRECTION, l its level in rules that
# walk down the tree and 0 in the others; the context takes draw 0 of CONTEXT, position n's
# randomised PIT draw n of PIT. On a chain these are the draws of ``chains``.


_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy")
def generate_trees(
    tables,
    rule,
    drafts,
    scratch,
    seed,
    begin,
    end,
    cells,
    accepted,
    lengths,
    transitions,
    pits,
    unsupported,
    trail,
):
    """Run trials ``begin`` to ``end``-1, each one call from its own context.

    Adds to what :func:`~simverify.simulators.kernels.chains.generate` adds to: ``accepted`` int64
    (depth+1,), ``lengths`` int64 (2, 1), ``transitions`` int64 (positions, states, cells), ``pits``
    int64 (2, positions, bins), ``unsupported`` int64 (1,); ``trail`` int64 (trials, positions, 2)
    is written.
    """
    depth = accepted.shape[0] - 1
    nodes = drafts.child.shape[0]
    u_draft = np.empty((nodes + nodes % 2, _TILE))
    u_accept = np.empty((nodes + nodes % 2, _TILE))
    u_last = np.empty((depth + 1 + (depth + 1) % 2, _TILE))
    u_start = np.empty((2, _TILE))
    u_pit = np.empty((pits.shape[1] + pits.shape[1] % 2, _TILE))
    states = np.empty((depth + 1, _TILE), np.int64)
    tokens = np.empty((depth, _TILE), np.int64)
    for first in range(begin, end, _TILE):
        size = min(_TILE, end - first)
        fill_tile(seed, first, CONTEXT, 0, u_start)
        fill_tile(seed, first, PIT, 0, u_pit)
        fill_tile(seed, first, DRAFT, 0, u_draft)
        fill_tile(seed, first, ACCEPT, 0, u_accept)
        fill_tile(seed, first, CORRECTION, 0, u_last)
        for t in range(size):
            states[0, t] = start(tables, u_start[0, t])
            tau, last = judge(
                rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch
            )
            accepted[tau] += 1
            lengths[0, 0] += tau + 1
            lengths[1, 0] += (tau + 1) * (tau + 1)
            for i in range(tau + 1):
                token = tokens[i, t] if i < tau else last
                count(
                    tables,
                    states[i, t],
                    token,
                    i,
                    u_pit,
                    t,
                    cells,
                    transitions,
                    pits,
                    unsupported,
                )
                if i < trail.shape[1]:
                    trail[first + t - begin, i, 0] = states[i, t]
                    trail[first + t - begin, i, 1] = token


# Tree Monte Carlo: one draw over all the places where a chain can end.


class TreeMonteCarlo(NamedTuple):
    """Needs nothing but the model."""


TREE_MONTE_CARLO = Family(lambda tables, drafting: TreeMonteCarlo())


@judges(TreeMonteCarlo)
def judge_ends(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    depth = tokens.shape[0]
    # The weight of each prefix, the mass of the outputs that end after it, and the share of
    # that which is left to this chain by the tokens that follow.
    weight, ends, share = scratch.floats[0], scratch.floats[1], scratch.floats[2]
    weight[0] = 1.0
    for i in range(depth):
        state = states[i, t]
        tokens[i, t] = draft(tables, state, u_draft[i, t])
        states[i + 1, t] = advance(tables, state, tokens[i, t])
        kept = weight[i] * ratio(tables, state, tokens[i, t])
        ends[i] = mass(tables, state, weight[i], 1.0)
        # Both rows sum to 1, so what q exceeds the target by follows.
        lost = ends[i] + 1.0 - weight[i]
        share[i] = max(1.0 - kept, 0.0) / lost if lost > 0.0 else 1.0
        weight[i + 1] = min(kept, 1.0)
    total = ends[depth] = weight[depth]
    factor = 1.0
    for i in range(depth - 1, -1, -1):
        factor *= share[i]
        ends[i] *= factor
        total += ends[i]
    goal = u_accept[0, t] * total
    tau = depth
    below = ends[depth]
    while tau > 0 and goal >= below:
        tau -= 1
        below += ends[tau]
    if tau == depth:
        return np.int64(depth), correct(tables, states[depth, t], 1.0, 0.0, u_last[0, t])
    return np.int64(tau), correct(tables, states[tau, t], weight[tau], 1.0, u_last[0, t])


# The nodes that a call kept: the drafted tree is drawn again, and searched for the emitted tokens.
#
# Rules draft no more than they look at, and none says which of two equal siblings it kept. Every
# draw has an address, so the tree that would have been drafted at once is there to be read.


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def same(tables, drafts, state, node, token, u_draft, t, before, left, out):
    """Write the children of ``node`` that have ``token`` to ``out``; return how many there are."""
    begin = drafts.first[node]
    found = 0
    for j in range(drafts.first[node + 1] - begin):
        child = drafts.child[begin + j]
        x = sibling(tables, drafts, state, node, j, before, left, u_draft[child - 1, t])
        if x < 0:
            break
        before[j] = x
        if x == token:
            out[found] = child
            found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def count_ways(tables, drafts, seed, first, trail, most, kept):
    """Add to ``kept`` int64 (n,) the nodes on the way that each of the trials kept.

    ``trail`` int64 (trials, depth+1, 2): state and token of what trial ``first`` and those after
    it emitted, -1 where there is no more. ``most``: most children of a node. The way of a trial
    is the first in the tree's order that has its accepted tokens.
    """
    nodes, depth = kept.shape[0], trail.shape[1] - 1
    u_draft = np.empty((nodes + nodes % 2, _TILE))
    before, left = np.empty(most, np.int64), np.empty(tables.draft.shape[1])
    # By level: the children that have the level's token, how many, and which of them is tried.
    ways = np.empty((depth, most), np.int64)
    count, at = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    for begin in range(0, trail.shape[0], _TILE):
        size = min(_TILE, trail.shape[0] - begin)
        fill_tile(seed, first + begin, DRAFT, 0, u_draft)
        for t in range(size):
            emitted = trail[begin + t]
            accepted = 0
            while accepted < depth and emitted[accepted + 1, 1] >= 0:
                accepted += 1
            if accepted == 0:
                continue
            level, node = 0, np.int64(0)
            entered = True
            while level >= 0:
                if entered:
                    count[level] = same(
                        tables,
                        drafts,
                        emitted[level, 0],
                        node,
                        emitted[level, 1],
                        u_draft,
                        t,
                        before,
                        left,
                        ways[level],
                    )
                    at[level] = 0
                if at[level] == count[level]:
                    level -= 1
                    entered = False
                    if level >= 0:
                        at[level] += 1
                elif level + 1 == accepted:
                    for i in range(accepted):
                        kept[ways[i, at[i]] - 1] += 1
                    break
                else:
                    node = ways[level, at[level]]
                    level += 1
                    entered = True
