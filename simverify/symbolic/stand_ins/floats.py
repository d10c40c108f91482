"""Stand-ins for what makes or takes floats, which leave draws as they are.

``float(rng.random())`` must return a float, which a draw cannot be, and so must every element of
``np.empty(n)``; where code was stopped by that, the name ``float`` is replaced in its modules,
and so are numpy's float types and functions that make arrays of floats. The types still pass for
types: in ``isinstance``, as a dtype, for class methods. The functions of Python's library that
take floats, as those of ``math``, would refuse draws, and are replaced throughout.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import DrawArray, draw_array, is_symbolic
from simverify.symbolic.draws.in_arrays.ufuncs import OF_ONE, UFUNCS
from simverify.symbolic.draws.mixed import Mixed
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.whose import namespaces

if TYPE_CHECKING:
    from contextlib import ExitStack

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
    for name in ("isnan", "isinf", "isfinite"):
        swap(math, name, _as_numpy_says(UFUNCS[getattr(np, name)], getattr(math, name)))


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


def _as_numpy_says(rule: Any, original: Any) -> Callable[[Any], Any]:
    return lambda x: bool(rule(x)) if isinstance(x, Draw) else original(x)


class _LikeFloat(type):
    makes: type

    def __call__(cls, x: Any = 0.0) -> Any:
        if isinstance(x, Draw):
            return x.cast(cls.makes)
        if isinstance(x, np.ndarray) and is_symbolic(x):
            return x.item().cast(float) if cls.makes is float else x.astype(cls.makes)
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.cast(cls.makes)
        return cls.makes(x)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.makes)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.makes)


class Float(float, metaclass=_LikeFloat):
    """See the module."""

    makes = float
    dtype = np.dtype(np.float64)


class Float64(float, metaclass=_LikeFloat):
    """The same for ``np.float64``."""

    makes = np.float64
    dtype = np.dtype(np.float64)


class Float32(float, metaclass=_LikeFloat):
    """The same for ``np.float32``."""

    makes = np.float32
    dtype = np.dtype(np.float32)


class Float16(float, metaclass=_LikeFloat):
    """The same for ``np.float16``."""

    makes = np.float16
    dtype = np.dtype(np.float16)


class _LikeInt(type):
    def __call__(cls, x: Any = 0, *base: Any) -> Any:
        if isinstance(x, Draw):
            return x.whole()
        if type(x) is Mixed:
            return x
        item = None if isinstance(x, np.ndarray) else getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value.whole()
        return int(x, *base)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, int)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, int)


class Int(int, metaclass=_LikeInt):
    """The same for ``int``, of draws with more values than can be run one by one."""

    dtype = np.dtype(np.int64)


class Builtins:
    """The builtins that are shadowed in the modules of the code."""

    def __init__(self) -> None:
        self._shadowed: list[tuple[dict[str, Any], str, type]] = []

    def replace(self, code: Any, name: str, twin: type, stack: "ExitStack") -> None:
        """Shadow one until ``stack`` closes."""
        for namespace in namespaces(code):
            if name not in namespace:
                namespace[name] = twin
                self._shadowed.append((namespace, name, twin))
        stack.callback(self._put_back)

    def _put_back(self) -> None:
        for namespace, name, _ in self._shadowed:
            namespace.pop(name, None)
        self._shadowed.clear()

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Give the code Python's own inside: a stand-in is not ``type(1) is int``."""
        for namespace, name, _ in self._shadowed:
            namespace.pop(name, None)
        try:
            yield
        finally:
            for namespace, name, twin in self._shadowed:
                namespace[name] = twin


class Twin(ModuleType):
    """A module as the code sees it: some names are others, the rest are the module's own."""

    def __init__(self, module: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def numpy_twins() -> dict[str, Any]:
    """Return what stands in for numpy's float types and for what makes arrays of floats."""
    filled = {
        name: _filled(getattr(np, name), like=name.endswith("_like"))
        for name in (
            "empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like",
        )
    }  # fmt: skip
    made = {name: _made(getattr(np, name)) for name in ("array", "asarray", "asanyarray")}
    return {
        "float64": Float64,
        "double": Float64,
        "float32": Float32,
        "single": Float32,
        "float16": Float16,
        "half": Float16,
        "fromiter": _made(np.fromiter),
        **filled,
        **made,
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


def _made(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(data: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, Iterator):
            data = list(data)
        if not _holds_draw(data):
            return original(data, dtype, *args, **kwargs)
        objects = np.array(data, dtype=object)
        made = draw_array(objects.ravel().tolist(), objects.shape)
        return made if dtype is None else made.astype(dtype)

    return make


def _holds_draw(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_holds_draw, data))
    return is_symbolic(data)
