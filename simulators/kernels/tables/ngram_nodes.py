"""How the ngram model lies in memory: packed states, node records, alias cells.

A state packs the node of the 4-byte context, the node of the 3-byte context (0: unseen,
so no followers and keep = 1) and the draft row. Cache misses decide the speed: a node is
one record whose bitmap tells, without a branch, whether and where a token follows.

A node has 6 words: 4 of bitmap (bit x: token x follows), then the index of its first
follower with the number of followers below each bitmap word in the four bytes above, then
keep = T / (N + T) as the bits of a float64. Node 0 has no followers, a sentinel ends the
list. Followers go by context and token; follower 0 stands for none.

Indices are unsigned: signed ones cost a check for negative values.
"""

from typing import Any

import numpy as np
from numba import njit

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
