"""16-bit floats as step functions: what is rounded to them, and where the steps lie."""

import math

import numpy as np

HALVES = ("float16", "bfloat16")


def rounded(x: float, dtype: str) -> float:
    """Return the nearest number of the dtype."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return float(np.float16(x))
    if not math.isfinite(x):
        return x
    bits = _bits(x)
    # To nearest, ties to even, as hardware does.
    return _number((bits + 0x7FFF + ((bits >> 16) & 1)) & ~0xFFFF)


def step_above(c: float, dtype: str, *, closed: bool) -> float:
    """Return b with: rounded(x) < c, or <= c if ``closed``, iff x < b (at b: a tie)."""
    if not math.isfinite(c):
        return c
    r = rounded(c, dtype)
    if r < c or (closed and r == c):
        r = _next(r, dtype, up=True)
    return (_next(r, dtype, up=False) + r) / 2


def _next(x: float, dtype: str, *, up: bool) -> float:
    if dtype == "float16":
        return float(np.nextafter(np.float16(x), np.float16(math.inf if up else -math.inf)))
    if x == 0:
        return _number(0x10000) * (1 if up else -1)
    return _number(_bits(x) + (0x10000 if (x > 0) == up else -0x10000))


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def _number(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))
