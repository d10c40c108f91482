"""Traversal verification: from the leaves up, the leftmost leaf first.

What is left of a node's target after rejections, times the node's weight, is again of the form
max(alpha p - beta q, 0) as long as q stays what it is: two numbers a level then, O(log V) a node.
Without replacement q loses tokens, and the rows on the way down to the node are kept instead.
"""

from typing import Any, NamedTuple

import numpy as np

from simverify.simulators.kernels.tables.access import advance, correct, draft, mass, ratio
from simverify.simulators.kernels.trees.judging import Family, judges
from simverify.simulators.kernels.trees.row_walk import copy_row, draw_or_target, without
from simverify.simulators.kernels.trees.siblings import draw_from


class Traversal(NamedTuple):
    """Siblings are independent samples."""


class TraversalWithout(NamedTuple):
    """Siblings without replacement; two rows of scratch for each level and for the root."""


TRAVERSAL = Family(lambda tables, drafting: Traversal())
TRAVERSAL_WITHOUT = Family(
    lambda tables, drafting: TraversalWithout(), lambda drafting: 2 * (drafting.shape.depth + 1)
)


@judges(Traversal)
def judge_traversal(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
