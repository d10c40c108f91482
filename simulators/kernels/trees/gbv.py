"""Greedy multi-path block verification: the best of K chains, then block against its law.

The chosen chain begins with x^i with probability (A + Q)^K - A^K. Written as Q times a sum of
products of A and A + Q it keeps its digits where Q is far below A, as it soon is.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from simverify.simulators.kernels.tables.access import advance, correct, draft, ratio
from simverify.simulators.kernels.trees.judging import Family, Floats, Ints, Tokens, judges
from simverify.simulators.kernels.trees.row_walk import draw_or_target


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
def steps(low: Any, high: Any, k: Any) -> Any:
    """Return (high^k - low^k) / (high - low), as the sum of high^i low^(k-1-i)."""
    total = 1.0
    power = 1.0
    for _ in range(k - 1):
        power *= low
        total = total * high + power
    return total


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def excess_row(
    rule: Any, tables: Any, state: Any, weight: Any, chains: Any, under: Any, joint: Any, out: Any
) -> Any:
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
def judge_gbv(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
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
