"""Rules that walk down the tree and read whole rows: their chances depend on which siblings fell.

A child costs O(V), and a node that is not looked at nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from simverify.simulators.kernels.tables.access import advance, correct
from simverify.simulators.kernels.trees.judging import Family, judges
from simverify.simulators.kernels.trees.siblings import draw_from, sibling
from simverify.simulators.kernels.trees.walk import below


class RecursiveWithout(NamedTuple):
    """Children one by one, and q loses each that is rejected; three rows of scratch."""


class LastChild(NamedTuple):
    """The last child alone is tested, as a sample of q off the others; two rows of scratch."""


RECURSIVE_WITHOUT = Family(lambda tables, drafting: RecursiveWithout(), lambda drafting: 3)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def copy_row(row: Any, out: Any) -> None:
    """Write ``row`` (V,) to ``out``."""
    for x in range(out.shape[0]):
        out[x] = row[x]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def without(q: Any, tokens: Any, count: Any, out: Any) -> Any:
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
def take_excess(weight: Any, residual: Any, q: Any) -> Any:
    """Make of ``residual`` (V,) what ``weight`` times it exceeds q (V,) by; returns the sum."""
    total = 0.0
    for x in range(residual.shape[0]):
        residual[x] = max(weight * residual[x] - q[x], 0.0)
        total += residual[x]
    return total


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw_or_target(tables: Any, state: Any, weights: Any, u: Any) -> Any:
    """Token drawn from ``weights`` (V,), or from the target where all are zero."""
    y = draw_from(weights, u)
    return correct(tables, state, 1.0, 0.0, u) if y < 0 else y


@judges(RecursiveWithout)
def judge_recursive(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
def judge_last(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
