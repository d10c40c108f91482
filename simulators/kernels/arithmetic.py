"""Arithmetic that the compiler may run on many entries of a row at once.

A loop that adds up a row becomes vector instructions only if the order of its additions is
free. ``add`` says so of one addition, and of nothing else: comparisons of probabilities stay
what they are. ``larger`` and ``choose`` are a maximum and a choice without a branch.

``log2`` and ``power_of_two`` are polynomials, good to 1e-9 and, relatively, to 1e-7. A number
and the row sum that it is divided by come from the same function: what it makes is a law.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial

_ROOT = float(np.sqrt(0.5))


def _fitted(function: Callable[[Any], Any], low: float, high: float, degree: int) -> Any:
    """Coefficients, lowest power first, of a polynomial close to ``function`` on an interval."""
    near = Chebyshev.interpolate(function, degree, [low, high])
    return tuple(float(c) for c in near.convert(kind=Polynomial).coef)


def _log_slope(w: Any) -> Any:
    """Return log2((1 + z) / (1 - z)) / z at z = sqrt(w); its value at 0 is 2 / ln 2."""
    z = np.sqrt(np.maximum(w, 1e-12))
    return 2.0 * np.arctanh(z) / (z * np.log(2.0))


_L0, _L1, _L2, _L3 = _fitted(_log_slope, 0.0, ((1 - _ROOT) / (1 + _ROOT)) ** 2, 3)
_E0, _E1, _E2, _E3, _E4, _E5 = _fitted(np.exp2, -0.5, 0.5, 5)
_ROOT_BITS = int(np.float64(_ROOT).view(np.int64))
_ROUNDER = 1.5 * 2.0**52 + 1023
"""Added to a small number, it leaves the nearest integer, biased as exponents are, in the low
bits."""


@intrinsic
def add(_typing: Any, a: Any, b: Any) -> Any:
    """Return a + b, of a sum whose terms may be added in any order."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments, flags=("reassoc", "nsz"))

    return types.float64(types.float64, types.float64), emit


@intrinsic
def add_product(_typing: Any, total: Any, a: Any, b: Any) -> Any:
    """Return total + a b, as :func:`add`; the product need not be rounded first."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        total, a, b = arguments
        product = builder.fmul(a, b, flags=("contract",))
        return builder.fadd(total, product, flags=("reassoc", "nsz", "contract"))

    return types.float64(types.float64, types.float64, types.float64), emit


@intrinsic
def larger(_typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of a and b, neither NaN."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        flags = ("nnan", "nsz")
        return builder.select(
            builder.fcmp_ordered(">", *arguments, flags=flags), *arguments, flags=flags
        )

    return types.float64(types.float64, types.float64), emit


@intrinsic
def choose(_typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` or ``no``, both computed."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return types.float64(types.boolean, types.float64, types.float64), emit


@intrinsic
def fma(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), emit


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def log2(x: Any) -> Any:
    """Binary logarithm of a normal float64 above 0; some number below -1021 of a smaller one."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_BITS) >> 52
    mantissa = np.int64(bits - (exponent << 52)).view(np.float64)  # in [sqrt(1/2), sqrt(2))
    z = (mantissa - 1.0) / (mantissa + 1.0)
    w = z * z
    slope = fma(w, fma(w, fma(w, _L3, _L2), _L1), _L0)
    return fma(z, slope, np.float64(exponent))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def power_of_two(x: Any, y: Any) -> Any:
    """Two to the power x y, |x y| < 1000."""
    rounded = fma(x, y, _ROUNDER)
    f = fma(x, y, _ROUNDER - rounded)
    power = np.int64(np.float64(rounded).view(np.int64) << 52).view(np.float64)
    return power * fma(f, fma(f, fma(f, fma(f, fma(f, _E5, _E4), _E3), _E2), _E1), _E0)
