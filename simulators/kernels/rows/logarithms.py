"""Logarithm and power of an entry, polynomials in the row's own precision.

A row of float32 is done in half the time of one of float64. A number and the row sum that it
is divided by come from the same function: what it makes is a law, however good its digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.polynomial import Chebyshev, Polynomial

from simverify.simulators.kernels.rows.arithmetic import fma

_ROOT = float(np.sqrt(0.5))
_INLINE = {"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}


def log2(x: float) -> float:
    """Binary logarithm of a normal number above 0; of a smaller one a number below -125.

    float64: good to 1e-9, below -1021. float32: to 3e-6.
    """
    raise NotImplementedError("log2 is for compiled code")


def power_of_two(x: float, y: float) -> float:
    """Two to the power x y, in the precision of x.

    float64: |x y| < 1000, good to 1e-7 of itself. float32: |x y| < 120, to 5e-6.
    """
    raise NotImplementedError("power_of_two is for compiled code")


@overload(log2, jit_options=_INLINE)
def _log2(x: Any) -> Any:
    return _log2_single if x == types.float32 else _log2_double


@overload(power_of_two, jit_options=_INLINE)
def _power_of_two(x: Any, y: Any) -> Any:
    return _power_single if x == types.float32 else _power_double


def _fitted(function: Callable[[Any], Any], low: float, high: float, degree: int) -> Any:
    """Coefficients, lowest power first, of a polynomial close to ``function`` on an interval."""
    near = Chebyshev.interpolate(function, degree, [low, high])
    return near.convert(kind=Polynomial).coef


def _log_slope(w: Any) -> Any:
    """Return log2((1 + z) / (1 - z)) / z at z = sqrt(w); its value at 0 is 2 / ln 2."""
    z = np.sqrt(np.maximum(w, 1e-12))
    return 2.0 * np.arctanh(z) / (z * np.log(2.0))


def _log_ratio(t: Any) -> Any:
    """Return log2(1 + t) / t; its value at 0 is 1 / ln 2."""
    t = np.where(np.abs(t) < 1e-12, 1e-12, t)
    return np.log1p(t) / (t * np.log(2.0))


_L0, _L1, _L2, _L3 = map(float, _fitted(_log_slope, 0.0, ((1 - _ROOT) / (1 + _ROOT)) ** 2, 3))
_E0, _E1, _E2, _E3, _E4, _E5 = map(float, _fitted(np.exp2, -0.5, 0.5, 5))
_ROOT_BITS = int(np.float64(_ROOT).view(np.int64))
_ROUNDER = 1.5 * 2.0**52 + 1023
"""Added to a small number, it leaves the nearest integer, biased as exponents are, in the low
bits."""

_S0, _S1, _S2, _S3, _S4, _S5, _S6 = map(
    np.float32, _fitted(_log_ratio, _ROOT - 1, 2 * _ROOT - 1, 6)
)
_P0, _P1, _P2, _P3, _P4 = map(np.float32, _fitted(np.exp2, -0.5, 0.5, 4))
_SINGLE_ROOT_BITS = np.float32(_ROOT).view(np.int32)
_SINGLE_ROUNDER = np.float32(1.5 * 2.0**23 + 127)
_ONE = np.float32(1.0)


def _log2_double(x: Any) -> Any:
    """Return log2 of a float64."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_BITS) >> 52
    mantissa = np.int64(bits - (exponent << 52)).view(np.float64)  # in [sqrt(1/2), sqrt(2))
    z = (mantissa - 1.0) / (mantissa + 1.0)
    w = z * z
    slope = fma(w, fma(w, fma(w, _L3, _L2), _L1), _L0)
    return fma(z, slope, np.float64(exponent))


def _power_double(x: Any, y: Any) -> Any:
    """Return 2^(x y) of float64."""
    rounded = fma(x, y, _ROUNDER)
    f = fma(x, y, _ROUNDER - rounded)
    power = np.int64(np.float64(rounded).view(np.int64) << 52).view(np.float64)
    return power * fma(f, fma(f, fma(f, fma(f, fma(f, _E5, _E4), _E3), _E2), _E1), _E0)


def _log2_single(x: Any) -> Any:
    """Return log2 of a float32: whole numbers stay 32 bits wide, so each step says so."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - _SINGLE_ROOT_BITS) >> np.int32(23))
    mantissa = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32)
    t = mantissa - _ONE  # of a mantissa in [sqrt(1/2), sqrt(2))
    square = t * t
    low = fma(square, fma(t, _S3, _S2), fma(t, _S1, _S0))
    high = fma(square, _S6, fma(t, _S5, _S4))
    return fma(t, fma(square * square, high, low), np.float32(exponent))


def _power_single(x: Any, y: Any) -> Any:
    """Return 2^(x y) of float32."""
    single = np.float32(y)
    rounded = fma(x, single, _SINGLE_ROUNDER)
    f = fma(x, single, _SINGLE_ROUNDER - rounded)
    power = np.int32(np.float32(rounded).view(np.int32) << np.int32(23)).view(np.float32)
    square = f * f
    return power * fma(square, fma(square, _P4, fma(f, _P3, _P2)), fma(f, _P1, _P0))
