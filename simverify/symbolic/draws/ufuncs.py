"""What numpy's ufuncs do to single draws and numbers."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.scalars import Draw


def _named(name: str, number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        return getattr(x, name)() if isinstance(x, Draw) else number(x)

    return apply


def _least(x: Any, y: Any) -> Any:
    return _clip(x, y, high=True)


def _greatest(x: Any, y: Any) -> Any:
    return _clip(x, y, high=False)


def _clip(x: Any, y: Any, *, high: bool) -> Any:
    if isinstance(y, Draw) and not isinstance(x, Draw):
        x, y = y, x
    if not isinstance(x, Draw):
        return min(x, y) if high else max(x, y)
    if isinstance(y, Draw):
        return x if (x < y) == high else y
    return x.clip(None, y) if high else x.clip(y, None)


def _divide(x: Any, y: Any) -> Any:
    """Divide as numpy does: by zero gives an infinity, not an exception."""
    if isinstance(y, Draw) or y != 0:
        return x / y
    return x._over_zero(np.float64(y)) if isinstance(x, Draw) else float(np.divide(x, y))


def _finite(x: Any) -> bool:
    return isinstance(x, Draw) or bool(np.isfinite(x))


UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: _divide,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.float_power: operator.pow,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: abs,
    np.fabs: abs,
    np.minimum: _least,
    np.maximum: _greatest,
    np.fmin: _least,
    np.fmax: _greatest,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.right_shift: operator.rshift,
    np.rint: _named("rint", np.rint),
    np.isfinite: _finite,
    np.isnan: lambda x: not isinstance(x, Draw) and bool(np.isnan(x)),
    np.isinf: lambda x: not isinstance(x, Draw) and bool(np.isinf(x)),
    np.logical_not: lambda x: not x,
    np.logical_and: lambda x, y: bool(x) and bool(y),
    np.logical_or: lambda x, y: bool(x) or bool(y),
    np.sign: lambda x: (-1.0 if x < 0 else 1.0) if isinstance(x, Draw) else float(np.sign(x)),
    np.signbit: lambda x: bool(x < 0) if isinstance(x, Draw) else bool(np.signbit(x)),
    np.heaviside: lambda x, h: float(x > 0) if isinstance(x, Draw) else float(np.heaviside(x, h)),
    np.reciprocal: lambda x: _divide(1.0, x),
    np.clip: lambda x, low, high: _least(_greatest(x, low), high),
    np.floor: _named("floor", np.floor),
    np.trunc: _named("trunc", np.trunc),
    np.ceil: lambda x: float(math.ceil(x)),
    **{
        getattr(np, name): _named(name, getattr(np, name))
        for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "square")
    },
}
_CLIP_UFUNC: Any = np._core.umath.clip  # type: ignore[attr-defined]  # has no public name
UFUNCS[_CLIP_UFUNC] = UFUNCS.pop(np.clip)
