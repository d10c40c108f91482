"""Greedy block's carried state, compiled: the stack of (end, R) of each trial.

Every modified target is max(alpha p - beta q, 0) with two numbers per position, because
max(R (alpha p - beta q) - q, 0) is again of that form; see ``simverify.verifiers.greedy``.
Entries are oldest first; older ones end earlier, so entries drop out from the front.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.tables.access import mass, ratio

LARGEST = 1e100
"""Where weights and debts are cut, as in ``simverify.verifiers.base``, which says why."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def carry(
    tables: Any,
    state: Any,
    token: Any,
    position: Any,
    ends: Any,
    t: Any,
    top: Any,
    path: Any,
    i: Any,
) -> Any:
    """Move trial ``t``'s stack past ``token`` at ``position``: ``path[i]`` to ``path[i+1]``.

    ``path`` float64 (gamma+1, depth) holds the factors R_j before each drafted token;
    ``ends`` int64 (depth, trials) their ends; ``top`` the number of entries. Returns
    (alpha, beta) of the verifier's target at ``position`` and that target's ratio to q at
    ``token``; a modified row without mass cannot be reached and counts as zero.
    """
    here = ratio(tables, state, token)
    alpha, beta = 1.0, 0.0
    for j in range(top):
        r = path[i, j]
        path[i + 1, j] = min(r * min(max(alpha * here - beta, 0.0), LARGEST), LARGEST)
        if position < ends[j, t]:
            alpha, beta = r * alpha, r * beta + 1.0
            total = mass(tables, state, alpha, beta)
            if 0.0 < total < np.inf:
                alpha, beta = alpha / total, beta / total
            else:
                alpha, beta = 0.0, 0.0
    return alpha, beta, min(max(alpha * here - beta, 0.0), LARGEST)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def settle(
    tables: Any,
    state: Any,
    last: Any,
    begin: Any,
    gamma: Any,
    tau: Any,
    weight: Any,
    ends: Any,
    factors: Any,
    t: Any,
    top: Any,
    path: Any,
) -> Any:
    """Write what trial ``t`` owes after its call into ``ends`` and ``factors``.

    The call began at position ``begin``, kept ``tau`` draft tokens of weight ``weight`` and
    emitted ``last`` on row ``state``. Returns the new number of entries.
    """
    if tau == gamma or ratio(tables, state, last) == np.inf:
        return 0
    _, _, here = carry(tables, state, last, begin + tau, ends, t, top, path, tau)
    kept = 0
    for j in range(top):
        if begin + tau + 1 < ends[j, t]:
            ends[kept, t] = ends[j, t]
            factors[kept, t] = path[tau + 1, j]
            kept += 1
    if tau <= gamma - 2:
        ends[kept, t] = begin + gamma
        factors[kept, t] = min(weight * here, LARGEST)
        kept += 1
    return kept
