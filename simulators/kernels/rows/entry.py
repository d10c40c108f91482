"""Functions of one token's target and draft probability, shared by the token and its row's sums.

A score or a law's weight is the same function there and here, to the last digit but for the
order of additions; only so is a law divided by its own mass.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels.rows.logarithms import power_of_two

CAP = 16.0
"""Nats at which the surprise is clipped."""

WARMTH = 1.0 / 0.9 - 1.0
"""A row at temperature 0.9 is row * row^WARMTH, normalised."""

_TINY = 1e-300
_LN2 = float(np.log(2.0))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def ratio_of(p: Any, q: Any) -> Any:
    """Return q/p; some number above 1 where p = 0 < q, and 0 where both are 0."""
    return q / max(p, _TINY)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def contrast_of(p: Any, q: Any) -> Any:
    """Return (q - p) / (q + p), 0 where both are 0."""
    return (q - p) / max(q + p, _TINY)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def surprise_of(log: Any) -> Any:
    """Return min(-log p, CAP) from log2 p."""
    return min(-_LN2 * np.float64(log), CAP)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def warmth_of(log: Any) -> Any:
    """Return p^WARMTH from log2 p, in the precision of the latter."""
    return power_of_two(log, WARMTH)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def spread_of(p: Any, excess: Any, mass: Any) -> Any:
    """Return excess / (mass - p): what each other token's p is multiplied by."""
    return excess / max(mass - p, 1e-16)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def next_up(x: Any) -> Any:
    """Return the smallest float64 above x >= 0."""
    return np.int64(np.float64(x).view(np.int64) + 1).view(np.float64)
