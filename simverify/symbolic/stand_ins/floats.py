"""Stand-ins for what makes or takes floats, which leave draws as they are.

``float(rng.random())`` must return a float, which a draw cannot be, and so must every element of
``np.empty(n)``; where code was stopped by that, the name ``float`` is replaced in its modules,
and so are numpy's float types and functions that make arrays of floats. The types still pass for
types: in ``isinstance``, as a dtype, for class methods. The functions of Python's library that
take floats, as those of ``math``, would refuse draws, and are replaced throughout.
"""

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import DrawArray, is_symbolic
from simverify.symbolic.draws.in_arrays.ufuncs import OF_ONE
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.whole.mixed import Mixed
from simverify.symbolic.stand_ins.names import Alike

_trunc, _real_fsum = math.trunc, math.fsum
_REAL_FRACTION: Any = Fraction.__new__
_MATH = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt")


def swap_functions(
    swap: Callable[[Any, str, Any], None], patches: list[tuple[Any, str, Any]]
) -> None:
    """Replace the functions of Python's library that take floats, and would refuse draws."""
    rules: dict[str, Callable[..., Any]] = {
        **{name: _rule_of(getattr(np, name), getattr(math, name)) for name in _MATH},
        "fabs": lambda x: abs(_floating(x)),
        "pow": lambda x, y: _floating(x) ** y,
        "floor": lambda x: x.floored(),
        "ceil": lambda x: x.ceiled(),
        "trunc": _truncated,
        "modf": _modf,
        "isnan": lambda x: False,
        "isinf": lambda x: False,
        "isfinite": lambda x: True,
    }
    for name, rule in rules.items():
        original = getattr(math, name)
        swap(math, name, followed := _of_draw_or_number(rule, original))
        # Python's random has names of its own for them, as for the floor of a uniform.
        patches += [(random, own, followed) for own, x in vars(random).items() if x is original]
    swap(math, "fsum", _fsum)
    # From Python 3.12 on Fraction asks the draw itself.
    patches.append((Fraction, "__new__", staticmethod(_fraction)))


def _of_draw_or_number(rule: Callable[..., Any], original: Any) -> Callable[..., Any]:
    def function(x: Any, *others: Any) -> Any:
        if type(x) is DrawArray and x.shape == () and original is not _trunc:
            # What np.where gives of scalars; math takes its element.
            x = x[()]
        return rule(x, *others) if isinstance(x, Draw) else original(x, *others)

    return function


def _rule_of(ufunc: Any, original: Any) -> Callable[..., Any]:
    def rule(x: Draw, *base: Any) -> Any:
        value = OF_ONE[ufunc](_floating(x), original)
        return value / original(*base) if base else value

    return rule


def _floating(x: Draw) -> Any:
    """Return a draw as a Python float, as the functions of math take it."""
    return x.cast(float)


def _truncated(x: Draw) -> Any:
    # Most of numpy's types have no __trunc__: the real function says so.
    _trunc(type(x.machine.sample)(0))
    return x.whole()


def _fraction(cls: type[Fraction], *parts: Any, **kwargs: Any) -> Fraction:
    for part in parts:
        if isinstance(part, Draw):
            part.refuse("the exact value of a draw (Fraction, as_integer_ratio)")
    return _REAL_FRACTION(cls, *parts, **kwargs)  # type: ignore[no-any-return]


def _modf(x: Draw) -> Any:
    whole = _floating(x).toward_zero(_float_trunc)
    return _floating(x) - whole, whole


def _float_trunc(x: float) -> float:
    return float(_trunc(x))


def _fsum(terms: Iterable[Any]) -> Any:
    terms = list(terms)
    draws = [_floating(x) for x in terms if isinstance(x, Draw)]
    if not draws:
        return _real_fsum(terms)
    numbers = [x for x in terms if not isinstance(x, Draw)]
    total, rest = sum(draws[1:], draws[0]), _real_fsum(numbers)
    return (
        total.map(lambda: total.form.affine(1.0, rest), lambda x: _real_fsum([x, *numbers]))
        if isinstance(total, Draw)
        else _real_fsum([total, *numbers])
    )


class _LikeFloat(Alike, type):
    def __call__(cls, x: Any = 0.0) -> Any:
        if isinstance(x, Draw):
            return x.cast(cls.makes)
        if cls.makes is not float and hasattr(x, "numpy"):
            x = x.numpy()  # which a tensor of bfloat16 has not
        if isinstance(x, np.ndarray) and is_symbolic(x):
            return x.item().cast(float) if cls.makes is float else x.astype(cls.makes)[()]
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.cast(cls.makes)
        return cls.makes(x)


class Float(float, metaclass=_LikeFloat):
    """See the module."""

    makes = float
    dtype = np.dtype(np.float64)


class Float64(np.float64, metaclass=_LikeFloat):
    """The same for ``np.float64``."""

    makes = np.float64
    dtype: Any = np.dtype(np.float64)


class Float32(np.float32, metaclass=_LikeFloat):
    """The same for ``np.float32``."""

    makes = np.float32
    dtype: Any = np.dtype(np.float32)


class Float16(np.float16, metaclass=_LikeFloat):
    """The same for ``np.float16``."""

    makes = np.float16
    dtype: Any = np.dtype(np.float16)


class _LikeInteger(_LikeFloat, type):
    def __call__(cls, x: Any = 0) -> Any:
        if isinstance(x, Draw):
            return x.as_type(cls.makes)
        return super().__call__(x) if is_symbolic(x) else cls.makes(x)


def _integer_twins() -> dict[str, Any]:
    """Return the same for numpy's integers, which would be made of Python's."""
    names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intp")
    kinds = {name: getattr(np, name) for name in names}
    made = {
        kind: _LikeInteger(name, (kind,), {"makes": kind, "dtype": np.dtype(kind)})
        for name, kind in kinds.items()
    }
    return {name: made[kind] for name, kind in kinds.items()}


class _LikeInt(Alike, type):
    makes = int

    def __call__(cls, x: Any = 0, *base: Any) -> Any:
        if isinstance(x, Draw):
            return x.whole()
        if type(x) is Mixed:
            return x.as_python()
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.whole()
        return int(x, *base)


class Int(int, metaclass=_LikeInt):
    """The same for ``int``, of draws with more values than can be run one by one."""

    dtype = np.dtype(np.int64)


def numpy_twins() -> dict[str, Any]:
    """Return what stands in for numpy's float types and for what makes arrays of floats."""
    filled = {
        name: _filled(getattr(np, name), like=name.endswith("_like"))
        for name in (
            "empty", "zeros", "ones", "empty_like", "zeros_like", "ones_like",
        )
    }  # fmt: skip
    return {
        "float64": Float64,
        "double": Float64,
        "float32": Float32,
        "single": Float32,
        "float16": Float16,
        "half": Float16,
        **_integer_twins(),
        **filled,
    }


def _filled(original: Callable[..., Any], *, like: bool) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if like and is_symbolic(args[0]):
            args = (np.empty(np.shape(args[0]), dtype=args[0].dtype), *args[1:])
        plain = original(*args, **kwargs)
        return _able_to_hold_draws(plain) if plain.dtype.kind == "f" else plain

    return make


def _able_to_hold_draws(plain: Any) -> Any:
    holder = np.empty(plain.shape, dtype=object).view(DrawArray)
    holder._real = plain.dtype
    # What np.empty leaves in an array is no number to follow.
    holder[...] = np.nan_to_num(plain)
    return holder
