"""Philox 4x32-10, the counter-based generator behind every draw of the simulators.

Key = seed (64 bits). Counter = (trial low, trial high, stream, call), 32 bits each. One
evaluation gives two doubles of 53 bits in [0, 1): draw n of a stream is word pair n mod 2
of call n div 2. Every draw has an address, so threads, shards and order cannot change it.

Reference: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011; known-answer vectors from the Random123 distribution.
"""

from typing import Any

import numpy as np
from numba import njit

DRAFT, ACCEPT, CORRECTION, CONTEXT, PIT = range(5)
"""The streams. Drafts have one of their own, so that all rules see the same drafts."""

_MUL0 = np.uint64(0xD2511F53)
_MUL1 = np.uint64(0xCD9E8D57)
_WEYL0 = np.uint64(0x9E3779B9)
_WEYL1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_11 = np.uint64(11)
_ULP = 2.0**-53


@njit(cache=True, nogil=True, error_model="numpy", inline="always", _nrt=False)
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Ten rounds on four 32-bit words held in uint64; returns the four output words."""
    for _ in range(10):
        a = _MUL0 * c0
        b = _MUL1 * c2
        c0 = (b >> _32) ^ c1 ^ k0
        c2 = (a >> _32) ^ c3 ^ k1
        c1 = b & _LOW
        c3 = a & _LOW
        k0 = (k0 + _WEYL0) & _LOW
        k1 = (k1 + _WEYL1) & _LOW
    return c0, c1, c2, c3


@njit(cache=True, nogil=True, error_model="numpy", inline="always", _nrt=False)
def _pair(seed: Any, trial: Any, stream: Any, call: Any) -> Any:
    a, b, c, d = philox(
        trial & _LOW, trial >> _32, np.uint64(stream), call, seed & _LOW, seed >> _32
    )
    return (
        np.float64(((b << _32) | a) >> _11) * _ULP,
        np.float64(((d << _32) | c) >> _11) * _ULP,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def fill_tile(seed: Any, trial: Any, stream: Any, first_call: Any, out: Any) -> None:
    """Draws of many trials: ``out[n, t]`` is draw ``2 first_call + n`` of trial ``trial + t``.

    ``out`` is float64 (even number of draws, trials); the inner loop runs over trials so
    that the compiler turns it into vector instructions.
    """
    for c in range(out.shape[0] // 2):
        call = np.uint64(first_call + c)
        for t in range(out.shape[1]):
            even, odd = _pair(np.uint64(seed), np.uint64(trial + t), stream, call)
            out[2 * c, t] = even
            out[2 * c + 1, t] = odd


# A choice without a branch.


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def pick(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` or ``no``, int64 in [0, 2^31), by a shift.

    Of any plainer choice the compiler makes a branch, even of a mask or a product. Where it
    follows a random draw no processor predicts it, and a miss costs more than the draw.
    """
    return (yes << 32 | no) >> (np.int64(condition) << 5) & 0xFFFFFFFF
