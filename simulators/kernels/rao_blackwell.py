"""Rao-Blackwell estimates of Pr(tau >= l): what the drafted block alone says of each rule.

Given the weight w before level l, the chance to pass it averages over the drafted token too:
sum over x of min(w p, q) = w - sum of max(w p - q, 0). All rules see the same drafts, so
differences between them are paired. It assumes the rules are right: for optima, never for
code under test.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.access import (
    advance,
    draft,
    mass,
    most_likely,
    ratio,
    start,
    target_prob,
)
from simverify.simulators.kernels.call import ARGMAX, BLOCK, GREEDY, MATCH, TOKEN
from simverify.simulators.kernels.philox import CONTEXT, DRAFT, fill_tile

_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy")
def accumulate(
    tables: Any, gamma: Any, seed: Any, begin: Any, end: Any, sums: Any, squares: Any
) -> None:
    """Add trials ``begin`` to ``end``-1 to ``sums`` and ``squares``, float64 (5, gamma+1).

    Row: the rule's code. Column l-1: the estimate of Pr(tau >= l); last column: of E[tau].
    """
    even = gamma + gamma % 2
    u_draft = np.empty((even, _TILE))
    u_start = np.empty((2, _TILE))
    weight = np.empty(5)
    value = np.empty(5)
    total = np.empty(5)
    for first in range(begin, end, _TILE):
        fill_tile(seed, first, CONTEXT, 0, u_start)
        fill_tile(seed, first, DRAFT, 0, u_draft)
        for t in range(min(_TILE, end - first)):
            state = start(tables, u_start[0, t])
            weight[:] = 1.0
            total[:] = 0.0
            for i in range(gamma):
                token = draft(tables, state, u_draft[i, t])
                here = ratio(tables, state, token)
                value[TOKEN] = weight[TOKEN] * (1.0 - mass(tables, state, 1.0, 1.0))
                value[BLOCK] = weight[BLOCK] - mass(tables, state, weight[BLOCK], 1.0)
                value[GREEDY] = weight[GREEDY] - mass(tables, state, weight[GREEDY], 1.0)
                weight[TOKEN] *= min(here, 1.0)
                weight[BLOCK] = min(weight[BLOCK] * here, 1.0)
                weight[GREEDY] *= here
                weight[MATCH] *= target_prob(tables, state, token)
                weight[ARGMAX] *= token == most_likely(tables, state)
                value[MATCH] = weight[MATCH]
                value[ARGMAX] = weight[ARGMAX]
                for rule in range(5):
                    total[rule] += value[rule]
                    sums[rule, i] += value[rule]
                    squares[rule, i] += value[rule] * value[rule]
                state = advance(tables, state, token)
            for rule in range(5):
                sums[rule, gamma] += total[rule]
                squares[rule, gamma] += total[rule] * total[rule]
