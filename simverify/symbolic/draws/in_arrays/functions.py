"""numpy's functions of arrays that hold draws: what is followed, by name; the rest is refused.

``MOVES`` are functions that only move elements, or are made of ufuncs: numpy runs them as they
are. ``FUNCTIONS`` have a rule. Everything else is done on each of few values, or refused.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import (
    DrawArray,
    as_objects,
    common_type,
    draw_array,
    first_draw,
    holds_objects,
    is_symbolic,
    of_objects,
    settle,
    typed,
)
from simverify.symbolic.draws.in_arrays.blanks import blank_copy, blank_run, cast, type_given
from simverify.symbolic.draws.in_arrays.elementwise import map_elements, meet, on_values
from simverify.symbolic.draws.in_arrays.joins import RULES
from simverify.symbolic.draws.in_arrays.ufuncs import UFUNCS
from simverify.symbolic.draws.scalars import ARRAYS, Draw
from simverify.symbolic.errors import ArrayOfDraws

MOVES = {
    getattr(np, name)
    for name in (
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "argwhere", "array_split",
        "atleast_1d", "atleast_2d", "atleast_3d", "copy",
        "count_nonzero", "cumprod", "cumsum", "delete", "diagonal", "diff", "dsplit",
        "expand_dims", "flatnonzero", "flip", "fliplr", "flipud", "hsplit", "max", "amax", "min",
        "amin", "moveaxis", "ndim", "nonzero", "prod", "ravel", "repeat", "reshape", "resize",
        "rollaxis", "shape", "size", "sort", "split", "squeeze", "sum", "swapaxes", "take",
        "take_along_axis", "tile", "transpose", "vsplit", "apply_along_axis", "put_along_axis",
        "iscomplexobj", "isrealobj", "ix_", "trim_zeros", "compress", "extract", "unravel_index",
        "rot90", "ndenumerate", "isscalar", "shares_memory", "may_share_memory",
    )
    if hasattr(np, name)
}  # fmt: skip


def _where(condition: Any, *values: Any) -> Any:
    if is_symbolic(condition):
        condition = np.not_equal(condition, 0)
    if not values:
        return np.nonzero(condition)
    kind = np.result_type(*map(_kind, values))
    chosen = map_elements(lambda c, x, y: cast(x if c else y, kind), [condition, *values])
    if isinstance(chosen, np.ndarray):
        return chosen.astype(kind)
    # Of scalars numpy makes an array of shape (), which is no scalar where its type is asked for.
    if not isinstance(chosen, Draw):
        return np.asarray(chosen)
    if chosen.source.refuses_arrays:
        # In a list numpy would take its element out, and leave it the type that it has.
        chosen.refuse("an array of shape () of a draw", ArrayOfDraws)
    return ARRAYS.holding(chosen)


def _kind(x: Any) -> Any:
    """Return what numpy's promotion sees: a type, or a number of Python's, which is weak."""
    if isinstance(x, Draw):
        sample = x.machine.sample
        return sample if isinstance(sample, float | int) and not _is_numpy(sample) else sample.dtype
    if holds_objects(x):
        return common_type(x.view(np.ndarray).ravel().tolist())
    return x if type(x) in (float, int, bool) else np.asarray(x).dtype


def _is_numpy(x: Any) -> bool:
    return isinstance(x, np.generic)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kw: Any) -> Any:
    low, high = kw.pop("min", a_min), kw.pop("max", a_max)
    if any(x is not np._NoValue for x in kw.values()):
        return on_values(np.clip, (a, low, high, out), kw, name=f"np.clip with {', '.join(kw)}")
    low, high = (None if x is np._NoValue else x for x in (low, high))
    kind, own = type_given(np.clip, a, low, high), type_given(np.asarray, a)
    if out is not None:
        blank_run(np.clip, (a, low, high), {"out": blank_copy(out)})
    result = _as_typed(a, kind)
    if own.kind in "iu":
        # Of Python's integers those beyond the type are no bounds.
        ends = np.iinfo(own)
        low = None if type(low) is int and low <= ends.min else low
        high = None if type(high) is int and high >= ends.max else high
    for bound, ufunc in ((low, np.maximum), (high, np.minimum)):
        if bound is not None:
            result = map_elements(UFUNCS[ufunc], [result, _as_typed(bound, kind)])
    array = as_objects(result)
    clipped = draw_array(array.ravel().tolist(), array.shape, kind)
    if out is not None:
        out[...] = clipped
        return out
    return clipped[()]


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if (draw := first_draw((v,))) is not None:
        meet(draw, (a,))
    if sorter is not None:
        a = np.asarray(a)[sorter]
    # Both become one type, in which they are compared.
    kind = np.result_type(_strong_kind(a), _strong_kind(v))
    cells, values = _as_typed(a, kind), _as_typed(v, kind)
    return places(cells, values, "right" if side == "right" else "left")


def places(cells: Any, values: Any, side: Any) -> Any:
    """Return where each of some values lies among sorted cells, arrays of objects both.

    One at a time: numpy would compare the values with each other too, to search less.
    """
    found = [cells.searchsorted(of_objects([x]), side=side)[0] for x in values.ravel().tolist()]
    return np.array(found, dtype=np.intp).reshape(values.shape)[()]


def _strong_kind(x: Any) -> np.dtype[Any]:
    """Return the type of an array of this, which numbers of Python's have as well."""
    array = as_objects(x)
    return common_type(array.ravel().tolist()) if array.dtype == object else array.dtype


def _as_typed(x: Any, kind: np.dtype[Any]) -> Any:
    """Return an array of objects of one type."""
    array = as_objects(x)
    flat = array.ravel().tolist() if array.dtype == object else list(array.ravel())
    return typed(flat, kind).reshape(array.shape)


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if out is not None:
        return on_values(np.round, (a, decimals, out), {}, name="np.round(out=)")
    if isinstance(a, Draw):
        a = a.cast(np.float64) if type(a.machine.sample) is float else a
        return a.nearest(np.round) if decimals == 0 else a.rounded_to(decimals, np.round)
    return a.round(decimals)


def _like(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(prototype: Any, *args: Any, **kwargs: Any) -> Any:
        plain = np.empty(np.shape(prototype), dtype=_kind(prototype))
        return original(plain, *args, **kwargs)

    return make


def _result_type(*parts: Any) -> Any:
    return np.result_type(*map(_kind_or_type, parts))


def _kind_or_type(x: Any) -> Any:
    return _kind(x) if isinstance(x, Draw) or holds_objects(x) else x


def _can_cast(x: Any, to: Any, casting: Any = "same_kind") -> bool:
    return np.can_cast(_kind_or_type(x), to, casting)


def _array_equal(x: Any, y: Any, equal_nan: bool = False) -> bool:
    if np.shape(x) != np.shape(y) or equal_nan:
        return bool(on_values(np.array_equal, (x, y, equal_nan), {}, name="np.array_equal"))
    return bool(np.all(np.equal(x, y)))


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return a view that nobody may write into, as numpy does: its elements may be one."""
    return _shown(np.broadcast_to(as_objects(array), shape), array)


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    views = np.broadcast_arrays(*map(as_objects, arrays))
    return type(views)(map(_shown, views, arrays))


def _shown(view: Any, array: Any) -> Any:
    """Return a view of an array's elements with the array's type."""
    if not holds_objects(view):
        return view
    shown = view.view(DrawArray)
    shown._real = type_given(np.asarray, array)
    return shown


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **RULES,
    np.broadcast_to: _broadcast_to,
    np.broadcast_arrays: _broadcast_arrays,
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.searchsorted: _searchsorted,
    np.digitize: lambda x, bins, right=False: _searchsorted(bins, x, "left" if right else "right"),
    np.result_type: _result_type,
    np.can_cast: _can_cast,
    np.array_equal: _array_equal,
    np.zeros_like: _like(np.zeros_like),
    np.ones_like: _like(np.ones_like),
    np.empty_like: _like(np.empty_like),
    np.full_like: _like(np.full_like),
}

_METHODS = {
    "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "flatten", "item",
    "max", "min", "prod", "ravel", "repeat", "reshape", "sort", "squeeze", "sum", "swapaxes",
    "take", "tolist", "transpose",
    # attributes
    "T", "mT", "base", "flags", "imag", "ndim", "real", "shape", "size", "strides", "view",
    "itemsize", "nbytes", "device", "setflags", "ctypes", "data",
}  # fmt: skip
"""Methods and attributes of arrays that numpy may run as they are, or that have a rule below."""


_OF_COMPARISONS = ("all", "any", "argpartition", "argsort", "nonzero", "searchsorted")
"""Methods of arrays that give no elements, but what their comparisons say."""


def _plain(name: str) -> Callable[..., Any]:
    def method(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.view(np.ndarray), name)(*args, **kwargs)

    return method


def _refused(name: str) -> Callable[..., Any]:
    def method(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
        function = getattr(np.ndarray, name)
        return on_values(function, (self, *args), kwargs, name=f".{name}()")

    return method


def _view(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
    if not kwargs and args and args[0] in (np.ndarray, DrawArray):
        return np.ndarray.view(self, *args)
    return on_values(np.ndarray.view, (self, *args), kwargs, name=".view()")


def _pythonic(x: Any) -> Any:
    if isinstance(x, list):
        return [_pythonic(y) for y in x]
    return x.as_python() if isinstance(x, Draw) else x.item() if isinstance(x, np.generic) else x


def _tolist(self: DrawArray) -> Any:
    return _pythonic(np.ndarray.tolist(self))


def _item(self: DrawArray, *args: Any) -> Any:
    return _pythonic(np.ndarray.item(self, *args))


for _name in dir(np.ndarray):
    _value = getattr(np.ndarray, _name)
    _known = (
        _name.startswith("_") or _name in (*_METHODS, *_OF_COMPARISONS) or _name in vars(DrawArray)
    )
    if callable(_value) and not _known:
        setattr(DrawArray, _name, _refused(_name))
for _name in _OF_COMPARISONS:
    setattr(DrawArray, _name, _plain(_name))
DrawArray.view = _view  # type: ignore[method-assign, assignment]
DrawArray.tolist = _tolist  # type: ignore[method-assign, assignment]
DrawArray.item = _item  # type: ignore[method-assign, assignment]
DrawArray.itemsize = property(lambda self: self.dtype.itemsize)  # type: ignore[assignment]
DrawArray.nbytes = property(lambda self: self.dtype.itemsize * self.size)  # type: ignore[assignment]


def _apply_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run one of numpy's functions over arrays with draws."""
    rule = FUNCTIONS.get(func)
    if rule is not None:
        return rule(*args, **kwargs)
    if func not in MOVES:
        return on_values(func, args, kwargs, name=f"np.{func.__name__}")
    inside = tuple(kind for kind in types if not issubclass(kind, Draw))
    plain = np.empty(0)
    result = np.ndarray.__array_function__(plain, func, inside, args, kwargs)
    if holds_objects(result) and not isinstance(result, DrawArray):
        return draw_array(result.ravel().tolist(), result.shape)
    return settle(result) if isinstance(result, DrawArray) else result


ARRAYS.apply_function = _apply_function
