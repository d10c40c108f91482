"""Markov tables: alias tables for the draft, sorted prefix sums for the sublinear step.

Per row, tokens are sorted by q/p ascending; with prefix sums P_k, Q_k the sum of
max(alpha p - beta q, 0) is alpha P_k - beta Q_k where k counts the tokens with
q/p < alpha/beta, and a draw from it is a binary search: O(log V) instead of O(V).
Indices are unsigned: signed ones cost a check for negative values.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from simverify.simulators.kernels import access
from simverify.simulators.kernels.access import implements

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


class MarkovTables(NamedTuple):
    """Rows 0..S-1 follow a token (state = token mod S); row S is the start. V tokens.

    "Sorted" arrays are in the row's own order, q/p ascending, p = 0 last.
    """

    target: Floats  # (S+1, V), rows sum to 1
    ratio: Floats  # (S+1, V) p/q, inf where q = 0 < p, 0 where p = 0
    alias_cut: Floats  # (S+1, V)
    alias_token: Ints  # (S+1, V)
    order: Ints  # (S+1, V) tokens, sorted
    rank: Ints  # (S+1, V) place of each token in that order
    inverse: Floats  # (S+1, V) q/p, sorted, inf where p = 0
    guide: Ints  # (S+1, cells+1) first place whose q/p reaches the cell
    target_sums: Floats  # (S+1, V+1) prefix sums, sorted
    draft_sums: Floats  # (S+1, V+1) prefix sums, sorted
    index_sums: Floats  # (S+1, V+1) prefix sums of the target in token order
    mode: Ints  # (S+1,) token of the largest target probability
    successor: Ints  # (V,) state after a token


@implements(access.start, MarkovTables)
def start(tables: Any, u: Any) -> Any:
    return np.int64(tables.target.shape[0] - 1)


@implements(access.advance, MarkovTables)
def advance(tables: Any, state: Any, token: Any) -> Any:
    return np.int64(tables.successor[np.uintp(token)])


@implements(access.draft, MarkovTables)
def draft(tables: Any, state: Any, u: Any) -> Any:
    scaled = u * tables.ratio.shape[1]
    column = np.uintp(scaled)
    row = np.uintp(state)
    other = np.int64(tables.alias_token[row, column])
    return np.int64(column) if scaled - column < tables.alias_cut[row, column] else other


@implements(access.ratio, MarkovTables)
def ratio(tables: Any, state: Any, token: Any) -> Any:
    return tables.ratio[np.uintp(state), np.uintp(token)]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def _support(tables: Any, state: Any, alpha: Any, beta: Any) -> Any:
    """Count the tokens with beta q/p < alpha, a prefix of the sorted row.

    Where p = 0 the stored q/p is inf, and beta inf is inf or nan: such tokens never count.
    """
    row = np.uintp(state)
    size = np.uintp(tables.inverse.shape[1])
    cell = np.uintp(alpha / (alpha + beta) * (tables.guide.shape[1] - 1))
    count = np.uintp(tables.guide[row, cell])
    while count < size and beta * tables.inverse[row, count] < alpha:
        count += np.uintp(1)
    return count


@implements(access.mass, MarkovTables)
def mass(tables: Any, state: Any, alpha: Any, beta: Any) -> Any:
    count = _support(tables, state, alpha, beta)
    p = tables.target_sums[state, count]
    q = tables.draft_sums[state, count]
    return max(alpha * p - beta * q, 0.0)


@implements(access.correct, MarkovTables)
def correct(tables: Any, state: Any, alpha: Any, beta: Any, u: Any) -> Any:
    p = tables.target_sums
    q = tables.draft_sums
    count = _support(tables, state, alpha, beta)
    total = alpha * p[state, count] - beta * q[state, count]
    if not total > 0.0:
        alpha, beta = 1.0, 0.0
        count = _support(tables, state, alpha, beta)
        total = p[state, count]
    goal = u * total
    low = np.uintp(0)  # smallest m with alpha P_{m+1} - beta Q_{m+1} > goal, below count
    size = np.uintp(tables.inverse.shape[1])
    row = np.uintp(state)
    while size > np.uintp(1):
        half = size >> np.uintp(1)
        middle = low + half
        here = alpha * p[row, middle] - beta * q[row, middle]
        low += half * np.uintp((middle < count) & (here <= goal))
        size -= half
    return np.int64(tables.order[row, low])


@implements(access.most_likely, MarkovTables)
def most_likely(tables: Any, state: Any) -> Any:
    return np.int64(tables.mode[state])


@implements(access.target_prob, MarkovTables)
def target_prob(tables: Any, state: Any, token: Any) -> Any:
    return tables.target[state, token]


@implements(access.pit, MarkovTables)
def pit(tables: Any, state: Any, token: Any, v: Any, by_ratio: Any) -> Any:
    if by_ratio:
        below = tables.target_sums[state, tables.rank[state, token]]
    else:
        below = tables.index_sums[state, token]
    return below + v * tables.target[state, token]
