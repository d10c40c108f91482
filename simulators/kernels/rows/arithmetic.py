"""Arithmetic that the compiler may run on many entries of a row at once.

A loop that adds up a row becomes vector instructions only if the order of its additions is
free. ``add`` says so of one addition, and of nothing else: comparisons of probabilities stay
what they are. ``larger`` and ``choose`` are a maximum and a choice without a branch.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic


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
    """Return a b + c, rounded once, all three float32 or all float64."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return a(a, a, a), emit
