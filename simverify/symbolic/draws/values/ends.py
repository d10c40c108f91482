"""Where the values of a draw end: infinities, and points at which the machine raises."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.values.machine import BFloat16, boundary

if TYPE_CHECKING:
    from simverify.symbolic.draws.values.forms import Form

OVERFLOWS = (ValueError, ZeroDivisionError, OverflowError)
"""What functions of Python floats raise where numpy's give infinities, as at u = 0."""


def finite_part(value: Callable[[int], Any], first: int, last: int) -> "tuple[int, int] | None":
    """Return the points between which a monotone value is finite, both ends among them.

    None if no finite one was found. What raises where it overflows is not finite.
    """

    def is_finite(point: int) -> bool:
        try:
            x = value(point)
        except OVERFLOWS:
            return False
        return isinstance(x, int) or bool(np.isfinite(x))

    middle = (first + last) // 2
    inside = next((point for point in (first, last, middle) if is_finite(point)), None)
    if inside is None:
        return None
    low, _ = boundary(is_finite, first, inside)
    high, _ = boundary(is_finite, inside, last)
    return first if low > inside else low, high - 1


def where_defined(value: Callable[[int], Any], first: int, last: int) -> tuple[int, int]:
    """Leave out an end at which the machine raises."""
    for step in (1, -1):
        point = first if step == 1 else last
        if first < last:
            try:
                value(point)
            except OVERFLOWS:
                first, last = (first + 1, last) if step == 1 else (first, last - 1)
    return first, last


_LARGEST = {np.float16: 65504.0, np.float32: 3.4e38, BFloat16: 3.3e38}

_FLOATS = (float, np.floating)

_LONGEST = 40.0
"""No exponential, nor the logarithm of one, is further from 0: no uniform is below 2^-54."""


def may_overflow(form: "Form", sample: Any) -> bool:
    """Whether a form may be infinite somewhere in the type of ``sample``, but for its ends."""
    if not isinstance(sample, _FLOATS):
        return False
    try:
        return _reach(form) > _LARGEST.get(type(sample), 1.7e308)
    except OverflowError:
        return True


def _reach(form: "Form") -> float:
    """Return a number that no value is beyond, but at the ends."""
    a, b = abs(form.a), abs(form.b)
    if form.inner is None:
        if form.kind == "u":
            return a + b
        if form.kind in ("ea", "le"):
            return a * _LONGEST + b
        largest = _LONGEST if form.kind == "ep" else 1.0
        return float(a * (2.0 ** (54 * b) if form.b < 0 else max(1.0, largest**b)))
    reach = _reach(form.inner)
    if form.op == "affine":
        return a * reach + b
    if form.op == "exp":
        return math.exp(reach)
    if form.op == "power":
        return reach**a if form.a > 0 else math.inf
    return max(reach, 750.0) + 1
