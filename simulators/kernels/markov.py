"""Markov tables: alias tables for the draft, sorted prefix sums for the sublinear step.

Per row, tokens are sorted by q/p ascending; with prefix sums P_k, Q_k the sum of
max(alpha p - beta q, 0) is alpha P_k - beta Q_k where k counts the tokens with
q/p < alpha/beta, and a draw from it is a binary search: O(log V) instead of O(V). Most draws
are from p or from max(p - q, 0), whose sums are known beforehand: there a table of u leaves
a few places to search, and most often one.
Indices are unsigned: signed ones cost a check for negative values.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from simverify.simulators.kernels import access
from simverify.simulators.kernels.access import implements
from simverify.simulators.kernels.philox import pick

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_P, _Q = np.uintp(0), np.uintp(1)
"""Which of the prefix sums."""

INDEX_STEP = 64
"""Tokens between two prefix sums in token order."""


class MarkovTables(NamedTuple):
    """Rows 0..S-1 follow a token (state = token mod S); row S is the start. V tokens.

    "Sorted" arrays are in the row's own order, q/p ascending, p = 0 last.
    """

    target: Floats  # (S+1, V), rows sum to 1
    draft: Floats  # (S+1, V), rows sum to 1
    ratio: Floats  # (S+1, V) p/q, inf where q = 0 < p, 0 where p = 0
    alias_cut: Floats  # (S+1, V)
    alias_token: Ints  # (S+1, V)
    order: Ints  # (S+1, V) tokens, sorted
    rank: Ints  # (S+1, V) place of each token in that order
    inverse: Floats  # (S+1, V) q/p, sorted, inf where p = 0
    guide: Ints  # (S+1, cells+1) first place whose q/p reaches the cell
    sums: Floats  # (2, S+1, V+1) prefix sums, sorted: p; q
    minus: Floats  # (2, S+1) q's share in the known laws p and p - q: 0; 1, or 0 if p <= q
    places: Ints  # (2, S+1, cells+1) place that u = cell/cells draws by the known laws
    index_sums: Floats  # (S+1, V/64) prefix sums of the target in token order, each 64th
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
    column = np.int64(scaled)
    row = np.uintp(state)
    other = np.int64(tables.alias_token[row, np.uintp(column)])
    return pick(scaled - column < tables.alias_cut[row, np.uintp(column)], column, other)


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
    row = np.uintp(state)
    p = tables.sums[_P, row, count]
    q = tables.sums[_Q, row, count]
    return max(alpha * p - beta * q, 0.0)


@implements(access.correct, MarkovTables)
def correct(tables: Any, state: Any, alpha: Any, beta: Any, u: Any) -> Any:
    row = np.uintp(state)
    if alpha == 1.0 and (beta == 0.0 or beta == 1.0):
        return _draw_known(tables, row, np.uintp(beta), u)
    count = np.int64(_support(tables, state, alpha, beta))
    p = tables.sums[_P]
    q = tables.sums[_Q]
    total = alpha * p[row, np.uintp(count)] - beta * q[row, np.uintp(count)]
    if not total > 0.0:
        return _draw_known(tables, row, _P, u)
    goal = u * total
    low = np.int64(0)  # smallest m with alpha P_{m+1} - beta Q_{m+1} > goal, below count
    size = np.int64(tables.inverse.shape[1])
    while size > 1:
        half = size >> 1
        middle = low + half
        here = alpha * p[row, np.uintp(middle)] - beta * q[row, np.uintp(middle)]
        low = pick((middle < count) & (here <= goal), middle, low)
        size -= half
    return np.int64(tables.order[row, np.uintp(low)])


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def _draw_known(tables: Any, row: Any, law: Any, u: Any) -> Any:
    """Draw from p (``law`` 0) or from max(p - q, 0) (``law`` 1)."""
    cells = tables.places.shape[2] - 1
    cell = np.uintp(u * cells)
    low = tables.places[law, row, cell]
    high = tables.places[law, row, cell + np.uintp(1)]
    if low < high:
        end = np.uintp(tables.places[law, row, np.uintp(cells)] + 1)
        minus = tables.minus[law, row]
        goal = u * (tables.sums[_P, row, end] - minus * tables.sums[_Q, row, end])
        while low < high:
            middle = (low + high + 1) >> 1
            m = np.uintp(middle)
            if tables.sums[_P, row, m] - minus * tables.sums[_Q, row, m] <= goal:
                low = middle
            else:
                high = middle - 1
    return np.int64(tables.order[row, np.uintp(low)])


@implements(access.most_likely, MarkovTables)
def most_likely(tables: Any, state: Any) -> Any:
    return np.int64(tables.mode[state])


@implements(access.target_prob, MarkovTables)
def target_prob(tables: Any, state: Any, token: Any) -> Any:
    return tables.target[state, token]


@implements(access.pits, MarkovTables)
def pits(tables: Any, state: Any, token: Any, v: Any) -> Any:
    larger = tables.sums[_P, state, tables.rank[state, token]]
    cell = token // INDEX_STEP
    lower = tables.index_sums[state, cell]
    for x in range(cell * INDEX_STEP, token):
        lower += tables.target[state, x]
    own = v * tables.target[state, token]
    return larger + own, lower + own


# Alias tables: a draw from any row for one uniform and one comparison.


@njit(cache=True, nogil=True, error_model="numpy")
def build_alias(rows: Any, cut: Any, alias: Any) -> None:
    """Fill the alias tables of probability rows (n, V): ``cut`` float64, ``alias`` int32.

    Column c keeps c with probability cut[c] and gives alias[c] otherwise. A token of
    probability zero has cut 0 and is nobody's alias, so it is never drawn.

    Reference: Vose, "A linear algorithm for generating random numbers with a given
    distribution", IEEE TSE 1991.
    """
    size = rows.shape[1]
    small = np.empty(size, np.int64)
    large = np.empty(size, np.int64)
    for r in range(rows.shape[0]):
        smalls = larges = 0
        mode = 0
        for i in range(size):
            cut[r, i] = rows[r, i] * size
            alias[r, i] = i
            if rows[r, i] > rows[r, mode]:
                mode = i
            if cut[r, i] < 1.0:
                small[smalls] = i
                smalls += 1
            else:
                large[larges] = i
                larges += 1
        while smalls > 0 and larges > 0:
            smalls -= 1
            low = small[smalls]
            high = large[larges - 1]
            alias[r, low] = high
            cut[r, high] -= 1.0 - cut[r, low]
            if cut[r, high] < 1.0:
                larges -= 1
                small[smalls] = high
                smalls += 1
        # What is left over differs from 1 by rounding alone.
        for i in small[:smalls]:
            cut[r, i] = 1.0 if rows[r, i] > 0.0 else 0.0
            alias[r, i] = mode
        for i in large[:larges]:
            cut[r, i] = 1.0
