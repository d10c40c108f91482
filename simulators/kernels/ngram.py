"""The ngram model for the compiled loops: no hash, no pass over the vocabulary.

Target and draft share their counts, so p(x) = keep3 keep4 q(x), plus something positive on
the few x that followed the 3-byte context in training, and more on those that followed the
4-byte context, which are among them. So every sum over the vocabulary is a closed form and
loops over these followers, and max(alpha p - beta q, 0) is a mixture of nonnegative parts:
a multiple of q, one part per follower of order 3, one per follower of order 4.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from simverify.simulators.kernels import access
from simverify.simulators.kernels.access import implements

# The memory layout of the ngram model: packed states, node records, alias cells.
#
# A state packs the node of the 4-byte context, the node of the 3-byte context (0: unseen,
# so no followers and keep = 1) and the draft row. Cache misses decide the speed: a node is
# one record whose bitmap tells, without a branch, whether and where a token follows.
#
# A node has 6 words: 4 of bitmap (bit x: token x follows), then the index of its first
# follower with the number of followers below each bitmap word in the four bytes above, then
# keep = T / (N + T) as the bits of a float64. Node 0 has no followers, a sentinel ends the
# list. Followers go by context and token; follower 0 stands for none.
#
# Indices are unsigned: signed ones cost a check for negative values.


ROW_BITS = 17
NODE3_BITS = 22
NODE4_BITS = 24
NODE_WORDS = 6
CUT_BITS = 45
"""An alias cell: 8 bits for the column and 45 for the cut are the 53 bits of a uniform."""

_ONE = np.uint64(1)
_LOW32 = np.uint64(0xFFFFFFFF)
_CUT_MASK = np.uint64(2**CUT_BITS - 1)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def row_of(state: Any) -> Any:
    """Draft row of a state."""
    return np.uintp(state) & np.uintp(2**ROW_BITS - 1)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def node3_of(state: Any) -> Any:
    """Node of the 3-byte context."""
    return (np.uintp(state) >> np.uintp(ROW_BITS)) & np.uintp(2**NODE3_BITS - 1)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def node4_of(state: Any) -> Any:
    """Node of the 4-byte context."""
    return np.uintp(state) >> np.uintp(ROW_BITS + NODE3_BITS)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def keep_of(nodes: Any, node: Any) -> Any:
    """Weight T / (N + T) of the next shorter context."""
    return np.uint64(nodes[node, np.uintp(5)]).view(np.float64)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def first_of(nodes: Any, node: Any) -> Any:
    """Index of the node's first follower; the next node's is the end."""
    return nodes[node, np.uintp(4)] & _LOW32


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def _popcount(x: Any) -> Any:
    # Compilers know this idiom and emit one instruction for it.
    x = x - ((x >> _ONE) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def place_of(nodes: Any, node: Any, token: Any) -> Any:
    """Index of the node's first follower not below ``token``, and 1 if that is the token."""
    x = np.uintp(token)
    word = x >> np.uintp(6)
    bit = x & np.uintp(63)
    bits = nodes[node, word]
    head = nodes[node, np.uintp(4)]
    before = (head >> (np.uint64(32) + (word << np.uint64(3)))) & np.uint64(255)
    inside = _popcount(bits & ((_ONE << bit) - _ONE))
    return (head & _LOW32) + before + inside, (bits >> bit) & _ONE


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def follower_of(nodes: Any, node: Any, token: Any) -> Any:
    """Index of the node's follower ``token``, 0 if the token never followed."""
    place, present = place_of(nodes, node, token)
    return place * present


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def draw(alias: Any, row: Any, u: Any) -> Any:
    """Token of a draft row by the uniform ``u``."""
    scaled = np.uint64(np.int64(u * 2.0**53))
    column = scaled >> np.uint64(CUT_BITS)
    cell = alias[row, column]
    other = cell & np.uint64(255)
    return np.int64(column if scaled & _CUT_MASK < cell >> np.uint64(8) else other)


Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.uint8]


class NgramTables(NamedTuple):
    """Rows 0..R-1 of the draft: the seen 2-byte contexts, then the 256 one-byte contexts.

    Followers of a context are the tokens that came after it in training.
    """

    starts: Ints  # (contexts,) states of the held-out contexts
    alias: Words  # (R, 256) 45-bit cut << 8 | alias token
    following: Ints  # (R, 256) state after a token, without its 4-byte node
    draft: Floats  # (R, 256) q, rows sum to 1
    sums: Floats  # (R, 257) its prefix sums
    peak: Floats  # (R,) largest q
    peak_token: Tokens  # (R,) the token that has it, the lowest id among equals
    nodes3: Words  # (n3+2, 6) 3-byte contexts
    token3: Tokens  # (e3+1,) of each of their followers the token,
    draft3: Floats  # (e3+1,) q,
    ratio3: Floats  # (e3+1,) P/q with P the 4-gram probability,
    child3: Ints  # (e3+1,) node of the 4-byte context it completes, in place in a state
    nodes4: Words  # (n4+2, 6) 4-byte contexts
    up4: npt.NDArray[np.uint32]  # (e4+1,) each follower's index among those of order 3
    ratio4: Floats  # (e4+1,) p/q


@implements(access.start, NgramTables)
def start(tables: Any, u: Any) -> Any:
    return tables.starts[np.uintp(u * tables.starts.shape[0])]


@implements(access.advance, NgramTables)
def advance(tables: Any, state: Any, token: Any) -> Any:
    entry = follower_of(tables.nodes3, node3_of(state), token)
    return tables.following[row_of(state), np.uintp(token)] | tables.child3[entry]


@implements(access.draft, NgramTables)
def draft(tables: Any, state: Any, u: Any) -> Any:
    return draw(tables.alias, row_of(state), u)


@implements(access.ratio, NgramTables)
def ratio(tables: Any, state: Any, token: Any) -> Any:
    node3, node4 = node3_of(state), node4_of(state)
    entry3 = follower_of(tables.nodes3, node3, token)
    entry4 = follower_of(tables.nodes4, node4, token)
    lower = tables.ratio3[entry3] if entry3 else keep_of(tables.nodes3, node3)
    return tables.ratio4[entry4] if entry4 else keep_of(tables.nodes4, node4) * lower


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def _sum_parts(tables: Any, state: Any, alpha: Any, beta: Any, goal: Any) -> Any:
    """Add up the parts of max(alpha p - beta q, 0) until they exceed ``goal``.

    The multiple of q comes first and never ends the sum. Returns (sum, follower of order 3
    whose part ended it or else the last one with a positive part, 0 if there is none).
    """
    node3, node4 = node3_of(state), node4_of(state)
    scale = alpha * keep_of(tables.nodes4, node4)
    base = max(scale * keep_of(tables.nodes3, node3) - beta, 0.0)
    total = base
    last: Any = np.uint64(0)
    for e in range(first_of(tables.nodes3, node3), first_of(tables.nodes3, node3 + np.uintp(1))):
        part = tables.draft3[e] * (max(scale * tables.ratio3[e] - beta, 0.0) - base)
        if part > 0.0:
            total += part
            last = e
            if total > goal:
                return total, last
    for e in range(first_of(tables.nodes4, node4), first_of(tables.nodes4, node4 + np.uintp(1))):
        up = np.uint64(tables.up4[e])
        lower = max(scale * tables.ratio3[up] - beta, 0.0)
        part = tables.draft3[up] * (max(alpha * tables.ratio4[e] - beta, 0.0) - lower)
        if part > 0.0:
            total += part
            last = up
            if total > goal:
                return total, last
    return total, last


@implements(access.mass, NgramTables)
def mass(tables: Any, state: Any, alpha: Any, beta: Any) -> Any:
    # The whole of ``_sum_parts``, without its branches, which nothing can predict.
    node3, node4 = node3_of(state), node4_of(state)
    scale = alpha * keep_of(tables.nodes4, node4)
    base = max(scale * keep_of(tables.nodes3, node3) - beta, 0.0)
    total = base
    for e in range(first_of(tables.nodes3, node3), first_of(tables.nodes3, node3 + np.uintp(1))):
        part = max(scale * tables.ratio3[e] - beta, 0.0) - base
        total += tables.draft3[e] * max(part, 0.0)
    for e in range(first_of(tables.nodes4, node4), first_of(tables.nodes4, node4 + np.uintp(1))):
        up = np.uint64(tables.up4[e])
        lower = max(scale * tables.ratio3[up] - beta, 0.0)
        part = max(alpha * tables.ratio4[e] - beta, 0.0) - lower
        total += tables.draft3[up] * max(part, 0.0)
    return total


@implements(access.correct, NgramTables)
def correct(tables: Any, state: Any, alpha: Any, beta: Any, u: Any) -> Any:
    total = _sum_parts(tables, state, alpha, beta, np.inf)[0]
    if not total > 0.0:
        alpha, beta = 1.0, 0.0
        total = _sum_parts(tables, state, alpha, beta, np.inf)[0]
    goal = u * total
    scale = alpha * keep_of(tables.nodes4, node4_of(state))
    base = max(scale * keep_of(tables.nodes3, node3_of(state)) - beta, 0.0)
    if goal < base:
        return draw(tables.alias, row_of(state), goal / base)
    last = _sum_parts(tables, state, alpha, beta, goal)[1]
    if last == np.uint64(0):
        return draw(tables.alias, row_of(state), u)
    return np.int64(tables.token3[last])


@implements(access.most_likely, NgramTables)
def most_likely(tables: Any, state: Any) -> Any:
    row, node3, node4 = row_of(state), node3_of(state), node4_of(state)
    keep4 = keep_of(tables.nodes4, node4)
    # Tokens that never followed have p in proportion to q: the row's mode stands for them.
    best = keep4 * keep_of(tables.nodes3, node3) * tables.peak[row]
    token = np.int64(tables.peak_token[row])
    for e in range(first_of(tables.nodes3, node3), first_of(tables.nodes3, node3 + np.uintp(1))):
        p = keep4 * tables.ratio3[e] * tables.draft3[e]
        x = np.int64(tables.token3[e])
        if p > best or (p == best and x < token):
            best, token = p, x
    for e in range(first_of(tables.nodes4, node4), first_of(tables.nodes4, node4 + np.uintp(1))):
        up = np.uint64(tables.up4[e])
        p = tables.ratio4[e] * tables.draft3[up]
        x = np.int64(tables.token3[up])
        if p > best or (p == best and x < token):
            best, token = p, x
    return token


@implements(access.target_prob, NgramTables)
def target_prob(tables: Any, state: Any, token: Any) -> Any:
    return access.ratio(tables, state, token) * tables.draft[row_of(state), np.uintp(token)]


@implements(access.pits, NgramTables)
def pits(tables: Any, state: Any, token: Any, v: Any) -> Any:
    row, node3, node4 = row_of(state), node3_of(state), node4_of(state)
    x = np.uintp(token)
    keep4 = keep_of(tables.nodes4, node4)
    keep = keep4 * keep_of(tables.nodes3, node3)
    here = access.ratio(tables, state, token)
    place, follows = place_of(tables.nodes3, node3, token)
    larger = 0.0  # p of the followers that come before by p/q, of equals the lower ids
    lower = 0.0  # p of the followers with lower ids
    others = tables.sums[row, x]  # q of the lower ids that never followed
    for e in range(first_of(tables.nodes3, node3), first_of(tables.nodes3, node3 + np.uintp(1))):
        q = tables.draft3[e]
        p_over_q = keep4 * tables.ratio3[e]
        p = q * p_over_q
        before = e < place
        others -= q * before
        lower += p * before
        larger += p * ((p_over_q > here) | ((p_over_q == here) & before))
    for e in range(first_of(tables.nodes4, node4), first_of(tables.nodes4, node4 + np.uintp(1))):
        up = np.uint64(tables.up4[e])
        q = tables.draft3[up]
        p_over_q = tables.ratio4[e]
        without = keep4 * tables.ratio3[up]
        before = up < place
        lower += q * (p_over_q - without) * before
        larger += q * p_over_q * ((p_over_q > here) | ((p_over_q == here) & before))
        larger -= q * without * ((without > here) | ((without == here) & before))
    rest = keep * others
    own = v * here * tables.draft[row, x]
    # Tokens that never followed tie at the smallest p/q, so they come last, by id.
    if not follows:
        larger += rest
    return min(max(larger, 0.0) + own, 1.0), min(max(lower + rest, 0.0) + own, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_rows(tables: Any, states: Any, p: Any, q: Any) -> None:
    """Write the target and draft row of each state into ``p``, ``q`` float64 (n, 256)."""
    for i in range(states.shape[0]):
        state = states[i]
        row, node3, node4 = row_of(state), node3_of(state), node4_of(state)
        keep4 = keep_of(tables.nodes4, node4)
        keep = keep4 * keep_of(tables.nodes3, node3)
        for x in range(q.shape[1]):
            q[i, x] = tables.draft[row, x]
            p[i, x] = keep * q[i, x]
        for e in range(
            first_of(tables.nodes3, node3), first_of(tables.nodes3, node3 + np.uintp(1))
        ):
            p[i, np.uintp(tables.token3[e])] = keep4 * tables.ratio3[e] * tables.draft3[e]
        for e in range(
            first_of(tables.nodes4, node4), first_of(tables.nodes4, node4 + np.uintp(1))
        ):
            up = np.uint64(tables.up4[e])
            p[i, np.uintp(tables.token3[up])] = tables.ratio4[e] * tables.draft3[up]
