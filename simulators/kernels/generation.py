"""The decoding loop, many generations at a time: draft, verify, emit, count.

One call per generation is the measurement of a rule's first call; several calls give the
tokens after i calls and the law by absolute position. Draw addresses (``philox``): in call
c, with W = gamma rounded up to even, token i is drafted by draw c W + i of stream DRAFT and
judged by draw c W + i of stream ACCEPT; the last token takes draw 2 c of CORRECTION; the
context draw 0 of CONTEXT; position n's randomised PIT draw n of PIT.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.call import BLOCK, GREEDY, verify, weigh
from simverify.simulators.kernels.debt import carry, settle
from simverify.simulators.kernels.philox import ACCEPT, CONTEXT, CORRECTION, DRAFT, PIT, fill_tile
from simverify.simulators.kernels.tables import access
from simverify.simulators.kernels.tables.access import advance, correct, draft, start, target_prob

_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def count(
    tables: Any,
    state: Any,
    token: Any,
    position: Any,
    v: Any,
    t: Any,
    cells: Any,
    transitions: Any,
    pits: Any,
    unsupported: Any,
) -> None:
    """Count one emitted token of trial ``t``; arrays as in :func:`generate`.

    ``v`` float64 (positions, trials) holds the uniforms of the PITs.
    """
    if position < transitions.shape[0]:
        transitions[position, state, cells[np.uintp(token)]] += 1
    if position < pits.shape[1]:
        bins = pits.shape[2]
        if target_prob(tables, state, token) <= 0.0:
            unsupported[0] += 1
        by_ratio, by_token = access.pits(tables, state, token, v[position, t])
        pits[0, position, min(np.int64(by_ratio * bins), bins - 1)] += 1
        pits[1, position, min(np.int64(by_token * bins), bins - 1)] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def generate(
    tables: Any,
    rule: Any,
    gamma: Any,
    seed: Any,
    begin: Any,
    end: Any,
    calls: Any,
    eos: Any,
    cells: Any,
    accepted: Any,
    lengths: Any,
    transitions: Any,
    pits: Any,
    unsupported: Any,
    trail: Any,
) -> None:
    """Run trials ``begin`` to ``end``-1, each at most ``calls`` calls from its own context.

    A generation stops early after token ``eos`` (-1: none) or once its tokens fill every
    counted position, if positions are counted over several calls. Adds to: ``accepted`` int64
    (gamma+1,) tau of the first call; ``lengths`` int64 (2, calls) sum and sum of squares of
    the tokens out after each call; ``transitions`` int64 (positions, states, cells), where
    ``cells`` int64 (V,) is the cell of each token, and ``pits`` int64 (2, positions, bins),
    randomised PITs in q/p and in token order (either of the two may be empty);
    ``unsupported`` int64 (1,) tokens of probability 0 among the latter. ``trail`` int64
    (trials, positions, 2), empty if nobody asks, receives state and token of each position
    that is emitted; the others are left as they are.
    """
    even = gamma + gamma % 2
    positions = max(transitions.shape[0], pits.shape[1], trail.shape[1])
    depth = max(gamma - 1, 1)
    u_draft = np.empty((even, _TILE))
    u_accept = np.empty((even, _TILE))
    u_last = np.empty((2, _TILE))
    u_start = np.empty((2, _TILE))
    u_pit = np.empty((pits.shape[1] + pits.shape[1] % 2, _TILE))
    states = np.empty((gamma + 1, _TILE), np.int64)
    tokens = np.empty((gamma, _TILE), np.int64)
    taus = np.empty(_TILE, np.int64)
    last = np.empty(_TILE, np.int64)
    law = np.empty((2, _TILE))
    emitted = np.empty(_TILE, np.int64)
    active = np.empty(_TILE, np.bool_)
    tops = np.empty(_TILE, np.int64)
    ends = np.empty((depth, _TILE), np.int64)
    factors = np.empty((depth, _TILE))
    path = np.empty((gamma + 2, depth))
    weight = np.empty((gamma + 1, _TILE))
    passed = np.empty(_TILE, np.int64)
    alpha = np.ones(gamma + 1)
    beta = np.zeros(gamma + 1)
    for first in range(begin, end, _TILE):
        size = min(_TILE, end - first)
        fill_tile(seed, first, CONTEXT, 0, u_start)
        fill_tile(seed, first, PIT, 0, u_pit)
        alpha[:] = 1.0
        beta[:] = 0.0
        for t in range(size):
            states[0, t] = start(tables, u_start[0, t])
            emitted[t] = 0
            active[t] = True
            tops[t] = 0
        for c in range(calls):
            fill_tile(seed, first, DRAFT, c * (even // 2), u_draft)
            fill_tile(seed, first, ACCEPT, c * (even // 2), u_accept)
            fill_tile(seed, first, CORRECTION, c, u_last)
            for i in range(gamma):
                if c == 0:  # every trial drafts: no branch stands in the compiler's way
                    for t in range(size):
                        tokens[i, t] = draft(tables, states[i, t], u_draft[i, t])
                        states[i + 1, t] = advance(tables, states[i, t], tokens[i, t])
                else:
                    for t in range(size):
                        if active[t]:
                            tokens[i, t] = draft(tables, states[i, t], u_draft[i, t])
                            states[i + 1, t] = advance(tables, states[i, t], tokens[i, t])
            # Branches that follow a draw cannot be predicted, and a miss throws away what was
            # begun of the next trials: loops without them stand apart, before and after.
            if rule == BLOCK or (rule == GREEDY and c == 0):
                for t in range(size):
                    passed[t] = weigh(
                        tables, rule, states, tokens, u_accept, t, alpha, beta, weight
                    )
            for t in range(size):
                if not active[t]:
                    last[t] = 0
                    continue
                if rule == GREEDY and c > 0:
                    for j in range(tops[t]):
                        path[0, j] = factors[j, t]
                    for i in range(gamma):
                        alpha[i], beta[i], here = carry(
                            tables,
                            states[i, t],
                            tokens[i, t],
                            emitted[t] + i,
                            ends,
                            t,
                            tops[t],
                            path,
                            i,
                        )
                        if here == 0.0:  # all later weights are 0, whatever their targets
                            break
                    passed[t] = weigh(
                        tables, rule, states, tokens, u_accept, t, alpha, beta, weight
                    )
                taus[t], last[t], law[0, t], law[1, t] = verify(
                    tables, rule, states, tokens, u_accept, t, alpha, beta, weight, passed[t]
                )
                if rule == GREEDY and calls > 1:
                    tau = taus[t]
                    last[t] = correct(tables, states[tau, t], law[0, t], law[1, t], u_last[0, t])
                    tops[t] = settle(
                        tables,
                        states[tau, t],
                        last[t],
                        emitted[t],
                        gamma,
                        tau,
                        weight[tau, t],
                        ends,
                        factors,
                        t,
                        tops[t],
                        path,
                    )
            for t in range(size):
                if last[t] < 0:
                    last[t] = correct(
                        tables, states[taus[t], t], law[0, t], law[1, t], u_last[0, t]
                    )
            running = 0
            for t in range(size):
                if active[t]:
                    tau = taus[t]
                    if c == 0:
                        accepted[tau] += 1
                    for i in range(tau + 1):
                        token = tokens[i, t] if i < tau else last[t]
                        count(
                            tables,
                            states[i, t],
                            token,
                            emitted[t],
                            u_pit,
                            t,
                            cells,
                            transitions,
                            pits,
                            unsupported,
                        )
                        if emitted[t] < trail.shape[1]:
                            trail[first + t - begin, emitted[t], 0] = states[i, t]
                            trail[first + t - begin, emitted[t], 1] = token
                        emitted[t] += 1
                        if token == eos:
                            active[t] = False
                            break
                    if calls > 1:
                        states[0, t] = advance(tables, states[tau, t], last[t])
                        if 0 < positions <= emitted[t]:
                            active[t] = False
                lengths[0, c] += emitted[t]
                lengths[1, c] += emitted[t] * emitted[t]
                running += active[t]
            if running == 0:
                for later in range(c + 1, calls):
                    for t in range(size):
                        lengths[0, later] += emitted[t]
                        lengths[1, later] += emitted[t] * emitted[t]
                break
