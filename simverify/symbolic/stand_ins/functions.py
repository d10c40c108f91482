"""Stand-ins for the functions of Python's library that take floats, and would refuse draws."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.ufuncs import OF_ONE
from simverify.symbolic.draws.scalars import Draw

_fabs, _pow, _real_modf, _real_fsum = math.fabs, math.pow, math.modf, math.fsum
_real_floor, _trunc = math.floor, math.trunc
_REAL_FRACTION: Any = Fraction.__new__
_MATH = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt")


def swap_functions(
    swap: Callable[[Any, str, Any], None], patches: list[tuple[Any, str, Any]]
) -> None:
    """Replace the functions of Python's library that take floats, and would refuse draws."""
    for name in _MATH:
        swap(math, name, _of_draw_or_number(getattr(np, name), getattr(math, name)))
    swap(math, "fabs", lambda x: abs(_floating(x)) if isinstance(x, Draw) else _fabs(x))
    swap(math, "pow", lambda x, y: _floating(x) ** y if isinstance(x, Draw) else _pow(x, y))
    swap(math, "floor", _floor)
    swap(math, "trunc", lambda x: x.whole() if isinstance(x, Draw) else _trunc(x))
    swap(math, "modf", _modf)
    swap(math, "fsum", _fsum)
    # From Python 3.12 on Fraction asks the draw itself.
    patches.append((Fraction, "__new__", staticmethod(_fraction)))
    swap(math, "isnan", _constant_of_draw(math.isnan, answer=False))
    swap(math, "isinf", _constant_of_draw(math.isinf, answer=False))
    swap(math, "isfinite", _constant_of_draw(math.isfinite, answer=True))


def _of_draw_or_number(ufunc: Any, original: Any) -> Callable[..., Any]:
    def function(x: Any, *base: Any) -> Any:
        if not isinstance(x, Draw):
            return original(x, *base)
        value = OF_ONE[ufunc](_floating(x), original)
        return value / original(*base) if base else value

    return function


def _floating(x: Draw) -> Any:
    """Return a draw as a Python float, as the functions of math take it."""
    return x.cast(float)


def _fraction(cls: type[Fraction], *parts: Any, **kwargs: Any) -> Fraction:
    for part in parts:
        if isinstance(part, Draw):
            part.refuse("the exact value of a draw (Fraction, as_integer_ratio)")
    return _REAL_FRACTION(cls, *parts, **kwargs)  # type: ignore[no-any-return]


def _modf(x: Any) -> Any:
    if not isinstance(x, Draw):
        return _real_modf(x)
    whole = _floating(x).toward_zero(_float_trunc)
    return _floating(x) - whole, whole


def _float_trunc(x: float) -> float:
    return float(_trunc(x))


def _floor(x: Any) -> Any:
    return x.__floor__() if isinstance(x, Draw) else _real_floor(x)


def _fsum(terms: Iterable[Any]) -> Any:
    terms = list(terms)
    return sum(terms, 0.0) if any(isinstance(x, Draw) for x in terms) else _real_fsum(terms)


def _constant_of_draw(original: Any, *, answer: bool) -> Callable[[Any], Any]:
    return lambda x: answer if isinstance(x, Draw) else original(x)
