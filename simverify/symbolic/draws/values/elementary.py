"""Functions of real numbers that forms are made of, with limits at their ends, and inverses."""

import math

INF = math.inf
# The real ones: while code is followed, math has others, which take draws and thrice the time.
_isfinite, _exp_of, _log_of = math.isfinite, math.exp, math.log
_floor, _ceil = math.floor, math.ceil


def exp(x: float) -> float:
    """Return the exponential, infinite where a double cannot hold it."""
    return INF if x > 709 else _exp_of(x)


def log(x: float) -> float:
    """Return the logarithm, minus infinity at 0 and below."""
    return -INF if x <= 0 else _log_of(x)


def power(x: float, k: float) -> float:
    """Return ``x**k`` for x >= 0, which a number below 0 counts as."""
    if x <= 0:
        return 0.0 if k > 0 else INF
    try:
        return float(x**k)
    except OverflowError:
        return INF


def power_inverse(y: float, k: float) -> float:
    """Solve x**k = y for x >= 0; y at or below 0 is never reached."""
    if y != y:
        return y
    return power(y, 1 / k)


def apply(op: str, a: float, b: float, x: float) -> float:
    """Return what the operation of a form makes of ``x``."""
    if op == "affine":
        return a * x + b
    if op == "floor":
        return _floor(x) if _isfinite(x) else x
    if op == "exp":
        return exp(x)
    return log(x) if op == "log" else power(x, a)


def invert(op: str, a: float, b: float, c: float) -> tuple[float, bool]:
    """Return ``(x, increasing)``: the operation gives less than ``c`` below x, or above it."""
    if op == "affine":
        return (c - b) / a, a > 0
    if op == "exp":
        return log(c), True
    if op == "log":
        return exp(c), True
    if op == "floor":
        return _ceil(c), True
    return power_inverse(c, a), a > 0


def sample_point(op: str) -> float:
    """Return a value at which the direction of an operation may be asked."""
    return 0.5 if op != "affine" else 0.0
