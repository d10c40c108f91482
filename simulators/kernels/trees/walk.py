"""Rules that walk down the tree by tables: O(1) for each child that is looked at.

Whether a child is accepted depends on its row, its place and its token alone, and what is drawn
after the last rejection on the row alone; so both are tabled once per model.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from simverify.simulators.kernels.pick import pick
from simverify.simulators.kernels.tables.access import advance, correct
from simverify.simulators.kernels.trees.judging import Floats, Ints, Tokens, judges
from simverify.simulators.kernels.trees.siblings import sibling


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
def draw_residual(tables: Any, residuals: Any, law: Any, state: Any, u: Any) -> Any:
    """Token of a tabled law, or of the target where ``law`` is -1, by the uniform ``u``."""
    if law < 0:
        return correct(tables, state, 1.0, 0.0, u)
    row, which = np.uintp(state), np.uintp(law)
    scaled = u * residuals.cut.shape[2]
    column = np.int64(scaled)
    other = np.int64(residuals.other[which, row, np.uintp(column)])
    return pick(scaled - column < residuals.cut[which, row, np.uintp(column)], column, other)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def below(drafts: Any, begin: Any, count: Any, before: Any, token: Any) -> Any:
    """First of ``count`` drafted children that has ``token``, 0 if none has."""
    for j in range(count):
        if before[j] == token:
            return drafts.child[begin + j]
    return np.int64(0)


@judges(Walk)
def judge_walk(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
def judge_tournament(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
