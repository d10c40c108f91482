"""What numpy's ufuncs do to single draws and numbers."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.attributes import OBJECT_LOOPS
from simverify.symbolic.draws.scalars import Draw


def _binary(forward: str, backward: str, ufunc: Any) -> Callable[[Any, Any], Any]:
    """Call the draw's own operator: that of a numpy number would come back here."""

    def apply(x: Any, y: Any) -> Any:
        if isinstance(x, Draw):
            return getattr(x, forward)(y)
        return getattr(y, backward)(x) if isinstance(y, Draw) else ufunc(x, y)

    return apply


def _unary(rule: Callable[[Draw], Any], ufunc: Any) -> Callable[[Any], Any]:
    return lambda x: rule(x) if isinstance(x, Draw) else ufunc(x)


def _double(x: Any) -> Any:
    return x.cast(np.float64) if isinstance(x, Draw) else np.float64(x)


def extreme(x: Any, y: Any, *, low: bool, op: Callable[..., Any]) -> Any:
    """Return the larger (``low``: one is a lower bound of the other) or smaller, by ``op``."""
    if isinstance(x, Draw) and isinstance(y, Draw):
        chosen = x if (x < y) != low else y
        one, other = x.machine.sample, y.machine.sample
        if type(one) is type(other):
            return chosen
        return chosen.as_type(type(op(one, other)))
    if isinstance(x, Draw) or isinstance(y, Draw):
        return x.clip_at(y, low=low, op=op) if isinstance(x, Draw) else y.clip_at(x, low=low, op=op)
    return op(x, y)


def sign(x: Draw) -> Any:
    """Return -1, 0 or 1, of the type that np.sign gives."""
    below = x.is_below(0)
    value = -1 if below else 0 if x.is_at(0) else 1
    return type(np.sign(x.machine.sample))(value)


def log_of(x: Any) -> Any:
    """Return the logarithm of a draw or an array as numpy's generators compute with it."""
    if isinstance(x, Draw):
        return OF_ONE[np.log](x, math.log)
    return math.log(x) if type(x) is float else np.log(x)


def _signbit(x: Draw) -> Any:
    """Whether a draw is negative, or the negative zero."""
    if x.is_below(0) or not x.is_at(0):
        return np.bool_(x.is_below(0))
    value, first, last = x.grid()
    signs = np.signbit(value(first)), np.signbit(value(last))
    return signs[0] if signs[0] == signs[1] else x.refuse("the sign of a zero")


def _functions() -> dict[Any, Callable[..., Any]]:
    def log(x: Draw, scale: float, shift: float, op: Any) -> Any:
        if x.holds_integers():
            return x.on_values(op, name=op.__name__)
        return x.map(lambda: x.form.affine(1.0, shift).log().affine(scale, 0.0), op)

    def exp(x: Draw, shift: float, op: Any) -> Any:
        if x.holds_integers():
            return x.on_values(op, name=op.__name__)
        return x.map(lambda: x.form.exp().affine(1.0, shift), op)

    return {
        np.log: lambda x, op=np.log: log(x, 1.0, 0.0, op),
        np.log2: lambda x, op=np.log2: log(x, 1 / math.log(2), 0.0, op),
        np.log10: lambda x, op=np.log10: log(x, 1 / math.log(10), 0.0, op),
        np.log1p: lambda x, op=np.log1p: log(x, 1.0, 1.0, op),
        np.exp: lambda x, op=np.exp: exp(x, 0.0, op),
        np.expm1: lambda x, op=np.expm1: exp(x, -1.0, op),
        np.sqrt: lambda x, op=np.sqrt: x.power(0.5, op),
        np.square: lambda x, op=np.square: x.power(2.0, op),
    }


OF_ONE = _functions()
"""Functions of one draw, by numpy's ufunc; the second argument is what computes them."""

UFUNCS: dict[Any, Callable[..., Any]] = {
    **{
        ufunc: _binary(f"__{name}__", f"__r{name}__", ufunc)
        for ufunc, name in (
            (np.add, "add"),
            (np.subtract, "sub"),
            (np.multiply, "mul"),
            (np.divide, "truediv"),
            (np.floor_divide, "floordiv"),
            (np.remainder, "mod"),
            (np.power, "pow"),
            (np.right_shift, "rshift"),
            (np.left_shift, "lshift"),
            (np.bitwise_and, "and"),
            (np.bitwise_or, "or"),
            (np.bitwise_xor, "xor"),
        )
    },
    np.float_power: lambda x, y: UFUNCS[np.power](_double(x), _double(y)),
    np.less: _binary("__lt__", "__gt__", np.less),
    np.less_equal: _binary("__le__", "__ge__", np.less_equal),
    np.greater: _binary("__gt__", "__lt__", np.greater),
    np.greater_equal: _binary("__ge__", "__le__", np.greater_equal),
    np.equal: _binary("__eq__", "__eq__", np.equal),
    np.not_equal: _binary("__ne__", "__ne__", np.not_equal),
    np.invert: _unary(operator.invert, np.invert),
    np.negative: _unary(operator.neg, np.negative),
    np.positive: _unary(operator.pos, np.positive),
    np.absolute: _unary(abs, np.absolute),
    np.fabs: _unary(
        lambda x: abs(x) if not x.holds_integers() else x.refuse("np.fabs of a draw"), np.fabs
    ),
    **{
        ufunc: (lambda x, y, low=low, op=ufunc: extreme(x, y, low=low, op=op))
        for ufunc, low in (
            (np.minimum, False),
            (np.fmin, False),
            (np.maximum, True),
            (np.fmax, True),
        )
    },
    np.isfinite: _unary(lambda x: np.True_, np.isfinite),
    np.isnan: _unary(lambda x: np.False_, np.isnan),
    np.isinf: _unary(lambda x: np.False_, np.isinf),
    np.logical_not: lambda x: np.bool_(not x),
    np.logical_and: lambda x, y: np.bool_(bool(x) and bool(y)),
    np.logical_or: lambda x, y: np.bool_(bool(x) or bool(y)),
    np.logical_xor: lambda x, y: np.bool_(bool(x) != bool(y)),
    np.sign: _unary(sign, np.sign),
    np.signbit: _unary(_signbit, np.signbit),
    np.rint: _unary(lambda x: x.nearest(np.rint), np.rint),
    np.floor: _unary(lambda x: x.floor(np.floor), np.floor),
    np.ceil: _unary(lambda x: x.ceiling(np.ceil), np.ceil),
    np.trunc: _unary(lambda x: x.toward_zero(np.trunc), np.trunc),
    np.reciprocal: _unary(lambda x: x.power(-1.0, np.reciprocal), np.reciprocal),
    **{ufunc: _unary(rule, ufunc) for ufunc, rule in OF_ONE.items()},
}
for _ufunc in (*OF_ONE, np.rint, np.floor, np.ceil, np.trunc):
    OBJECT_LOOPS[_ufunc.__name__] = UFUNCS[_ufunc]

_CLIP: Any = np._core.umath.clip  # type: ignore[attr-defined]  # has no public name


def _clip(x: Any, low: Any, high: Any) -> Any:
    kind = type(_CLIP(*(y.machine.sample if isinstance(y, Draw) else y for y in (x, low, high))))
    x, low, high = (y.as_type(kind) if isinstance(y, Draw) else kind(y) for y in (x, low, high))
    above = extreme(x, low, low=True, op=np.maximum)
    return extreme(above, high, low=False, op=np.minimum)


UFUNCS[_CLIP] = _clip
