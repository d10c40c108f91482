"""numpy's functions of arrays that hold draws: those with rules, by name; the rest is refused.

``MOVE_FUNCTIONS`` are functions that only move elements, or are made of ufuncs: numpy runs them as
they are. ``FUNCTION_RULES`` have a rule. Everything else is done on each of few values, or refused.
"""

__simverify_role__ = "stand-in"


import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.symbolic.arrays import (
    UFUNC_RULES,
    DrawArray,
    as_object_array,
    as_objects,
    as_python_value,
    cast_element,
    cast_object_array,
    cast_objects,
    common_type,
    copy_with_placeholders,
    element_list,
    first_draw,
    holds_objects,
    is_symbolic,
    make_draw_array,
    map_elements,
    note_precision,
    resolve_index,
    result_dtype,
    run_on_placeholders,
    run_on_values,
    simplify_array,
)
from simverify.symbolic.provenance import ArrayOfDraws, FloatOfDraw, names
from simverify.symbolic.scalar import ARRAY_HOOKS, Draw

# Functions that join arrays, choose among them, or write into them.
#
# They move elements, and their result has a type of its own, which placeholders find
# (:func:`~simverify.symbolic.arrays.result_dtype`): beside a Python number 16 bits stay 16 bits,
# beside an array of doubles they become doubles.


FunctionRule = Callable[..., Any]
ArgumentPlace = tuple[int, str]

_JOIN_ARGUMENTS: dict[Any, tuple[ArgumentPlace, ...]] = {
    **dict.fromkeys((np.concatenate, np.stack), ((0, "arrays"),)),
    **dict.fromkeys((np.hstack, np.vstack, np.dstack, np.column_stack), ((0, "tup"),)),
    np.append: ((0, "arr"), (1, "values")),
    np.insert: ((0, "arr"), (2, "values")),
    np.select: ((1, "choicelist"), (2, "default")),
    np.choose: ((1, "choices"),),
    np.roll: ((0, "a"),),
    np.diag: ((0, "v"),),
    np.triu: ((0, "m"),),
    np.tril: ((0, "m"),),
}
"""Where among the arguments the values are; the others say where they go."""

SEQUENCE_FUNCTIONS = names("block column_stack concatenate dstack hstack stack vstack")
"""What is given a list of arrays; elsewhere a list is one array."""

_LISTED_FUNCTIONS = SEQUENCE_FUNCTIONS | {"select", "choose"}

_WRITE_ARGUMENTS: dict[Any, tuple[ArgumentPlace, ArgumentPlace]] = {
    np.copyto: ((0, "dst"), (1, "src")),
    np.put: ((0, "a"), (2, "v")),
    np.place: ((0, "arr"), (2, "vals")),
    np.putmask: ((0, "a"), (2, "values")),
    np.fill_diagonal: ((0, "a"), (1, "val")),
}
"""What writes values into an array: where among the arguments both are."""

_TYPE_KEYWORDS = {"dtype", "casting"}


def _join_rule(func: Any) -> FunctionRule:
    def join(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        inputs = {key: x for key, x in kwargs.items() if key != "out"}
        args, kwargs = _read_index_arguments(func, args, inputs)
        arguments = kwargs if out is None else kwargs | {"out": copy_with_placeholders(out)}
        like = run_on_placeholders(func, args, arguments)
        if not isinstance(like, np.ndarray) or like.dtype.kind not in "biuf":
            return run_on_values(func, args, kwargs, name=f"np.{func.__name__}")
        options = {key: x for key, x in kwargs.items() if key not in _TYPE_KEYWORDS}
        several = func.__name__ in _LISTED_FUNCTIONS
        args, options = _map_arguments(args, options, _JOIN_ARGUMENTS[func], several=several)
        joined = _joined_array(func(*args, **options), like.dtype, wraps=func is not np.insert)
        if out is None:
            return joined
        out[...] = joined
        return out

    return join


def _write_rule(func: Any) -> FunctionRule:
    def write(*args: Any, **kwargs: Any) -> None:
        args, kwargs = _read_index_arguments(func, args, kwargs)
        (place, name), values = _WRITE_ARGUMENTS[func]
        array = args[place] if place < len(args) else kwargs[name]
        if holds_objects(array) and type(array) is not DrawArray:
            written, options = _map_arguments(args, kwargs, ((place, name), values))
            func(*written, **options)
            return
        blank = _map_arguments(args, kwargs, ((place, name),), make=copy_with_placeholders)
        run_on_placeholders(func, *blank)
        if type(array) is not DrawArray:
            if array.dtype.kind != "f" or (draw := first_draw((*args, *kwargs.values()))) is None:
                run_on_values(func, args, kwargs, name=f"np.{func.__name__}")
                return
            draw.refuse("float() of a draw", FloatOfDraw)
        plain = array.view(np.ndarray)
        options = {key: x for key, x in kwargs.items() if key not in _TYPE_KEYWORDS}
        args, options = _map_arguments(args, options, ((place, name), values))
        func(*args, **options)
        plain[...] = cast_object_array(plain, array.dtype, wraps=False)

    return write


def _read_index_arguments(
    func: Any, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments with those read that say where values go."""
    places = _JOIN_ARGUMENTS.get(func) or _WRITE_ARGUMENTS[func]
    numbers, names = zip(*places, strict=True)
    name = f"np.{func.__name__}"
    return (
        tuple(x if i in numbers else _read_argument(x, name) for i, x in enumerate(args)),
        {key: x if key in names else _read_argument(x, name) for key, x in kwargs.items()},
    )


def _read_argument(x: Any, name: str) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_read_argument(y, name) for y in x)
    return ARRAY_HOOKS.known(x, name) if is_symbolic(x) or type(x) is DrawArray else x


def _map_arguments(
    args: Any,
    kwargs: dict[str, Any],
    places: Sequence[ArgumentPlace],
    *,
    several: bool = False,
    make: FunctionRule | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments with those at some places as objects, or what ``make`` makes of them."""
    args, kwargs = list(args), dict(kwargs)
    for nth, (place, name) in enumerate(places):

        def made(x: Any, first: bool = nth == 0) -> Any:
            return as_object_array(x, several=several and first) if make is None else make(x)

        if place < len(args):
            args[place] = made(args[place])
        elif name in kwargs:
            kwargs[name] = made(kwargs[name])
    return tuple(args), kwargs


def _joined_array(joined: Any, kind: np.dtype[Any], *, wraps: bool = True) -> Any:
    cast = cast_object_array(joined, kind, wraps=wraps)
    return make_draw_array(cast.ravel().tolist(), joined.shape, kind)


def _block(arrays: Any) -> Any:
    kind = run_on_placeholders(np.block, (arrays,), {}).dtype
    return _joined_array(np.block(_block_leaves(arrays)), kind)


def _block_leaves(x: Any) -> Any:
    return [_block_leaves(y) for y in x] if isinstance(x, list) else as_object_array(x)


def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Any:
    shape = np.shape(x)
    conditions = _read_argument(condlist, "np.piecewise")
    # For what it raises.
    np.piecewise(np.zeros(shape), conditions, [0] * len(funclist))
    masks = np.asarray(conditions, dtype=bool).reshape(-1, *shape)
    if len(masks) == len(funclist) - 1:
        masks = np.concatenate([masks, ~masks.any(axis=0, keepdims=True)])
    kind = run_on_placeholders(np.asarray, (x,), {}).dtype
    elements = np.atleast_1d(np.asarray(as_object_array(x), dtype=object))
    source = cast_object_array(elements, kind, wraps=True).view(DrawArray)
    source._real = kind
    result = np.zeros(np.shape(source), kind).astype(object).view(DrawArray)
    result._real = kind
    result[...] = np.zeros((), kind)
    for mask, function in zip(masks.reshape(-1, *source.shape), funclist, strict=True):
        part = source[mask]
        if not callable(function):
            result[mask] = function
        elif part.size:
            result[mask] = function(part, *args, **kwargs)
    return make_draw_array(result.view(np.ndarray).ravel().tolist(), shape, kind)


def _fill(self: DrawArray, value: Any) -> None:
    run_on_placeholders(np.ones(1, self.dtype).fill, (value,), {})
    self[...] = value if not isinstance(value, np.ndarray) else value.reshape(())


class _FlatView:
    """What ``array.flat`` is: its elements in a row, whose slices are copies."""

    # Code may ask for its type.
    __class__ = property(lambda self: np.flatiter)

    def __init__(self, array: DrawArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Any:
        return iter(self.copy())

    def __getitem__(self, index: Any) -> Any:
        return self.copy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        array, index = self._array, resolve_index(index)
        plain = array.view(np.ndarray)
        if np.ndim(value) == 0:
            places = np.arange(plain.size)[index]
            plain[np.unravel_index(places, plain.shape)] = array.conform(value)
            return
        # For what it raises. Of several values the first ones are taken, or they come again.
        blank = run_on_placeholders(np.asarray, (value,), {})
        np.ones(array.shape, array.dtype).flat[index] = blank
        plain.flat[index] = as_object_array(value)
        plain[...] = cast_object_array(plain, array.dtype, wraps=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array, name)

    def copy(self) -> Any:
        return self._array.reshape(-1).copy()


def _comparison_rule(op: FunctionRule) -> FunctionRule:
    return lambda flat, other: op(flat.copy(), other)


for _name in names("lt le gt ge eq ne"):
    setattr(_FlatView, f"__{_name}__", _comparison_rule(getattr(operator, _name)))

JOIN_RULES: dict[Any, FunctionRule] = {
    **{func: _join_rule(func) for func in _JOIN_ARGUMENTS},
    **{func: _write_rule(func) for func in _WRITE_ARGUMENTS},
    np.block: _block,
    np.piecewise: _piecewise,
}
"""By function: what stands for it where there are draws."""


MOVE_FUNCTIONS = {
    getattr(np, name)
    for name in names(
        "all any argmax argmin argpartition argsort argwhere array_split atleast_1d atleast_2d "
        "atleast_3d copy count_nonzero cumprod cumsum delete diagonal diff dsplit expand_dims "
        "flatnonzero flip fliplr flipud hsplit max amax min amin moveaxis ndim nonzero prod "
        "ravel repeat reshape resize rollaxis shape size sort split squeeze sum swapaxes take "
        "take_along_axis tile transpose vsplit apply_along_axis put_along_axis iscomplexobj "
        "isrealobj ix_ trim_zeros compress extract unravel_index rot90 ndenumerate isscalar "
        "shares_memory may_share_memory"
    )
    if hasattr(np, name)
}


def _where(condition: Any, *values: Any) -> Any:
    if is_symbolic(condition):
        condition = np.not_equal(condition, 0)
    if not values:
        return np.nonzero(condition)
    kind = np.result_type(*map(_promotion_kind, values))
    chosen = map_elements(lambda c, x, y: cast_element(x if c else y, kind), [condition, *values])
    if isinstance(chosen, np.ndarray):
        return chosen.astype(kind)
    # Of scalars numpy makes an array of shape (), which is no scalar where its type is asked for.
    if not isinstance(chosen, Draw):
        return np.asarray(chosen)
    if chosen.source.refuses_arrays:
        # In a list numpy would take its element out, and leave it the type that it has.
        chosen.refuse("an array of shape () of a draw", ArrayOfDraws)
    return ARRAY_HOOKS.holding(chosen)


def _promotion_kind(x: Any) -> Any:
    """Return what numpy's promotion sees: a type, or a number of Python's, which is weak."""
    if isinstance(x, Draw):
        sample = x.machine.sample
        return sample.dtype if isinstance(sample, np.generic) else sample
    if holds_objects(x):
        return common_type(x.view(np.ndarray).ravel().tolist())
    return x if type(x) in (float, int, bool) else np.asarray(x).dtype


def _clip_function(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kw: Any) -> Any:
    low, high = kw.pop("min", a_min), kw.pop("max", a_max)
    if any(x is not np._NoValue for x in kw.values()):
        return run_on_values(np.clip, (a, low, high, out), kw, name=f"np.clip with {', '.join(kw)}")
    low, high = (None if x is np._NoValue else x for x in (low, high))
    kind, dtype = result_dtype(np.clip, a, low, high), result_dtype(np.asarray, a)
    if out is not None:
        run_on_placeholders(np.clip, (a, low, high), {"out": copy_with_placeholders(out)})
    result = _as_typed_objects(a, kind)
    if dtype.kind in "iu":
        # Of Python's integers those beyond the type are no bounds.
        ends = np.iinfo(dtype)
        low = None if type(low) is int and low <= ends.min else low
        high = None if type(high) is int and high >= ends.max else high
    for bound, ufunc in ((low, np.maximum), (high, np.minimum)):
        if bound is not None:
            result = map_elements(UFUNC_RULES[ufunc], [result, _as_typed_objects(bound, kind)])
    array = as_objects(result)
    clipped = make_draw_array(array.ravel().tolist(), array.shape, kind)
    if out is not None:
        out[...] = clipped
        return out
    return clipped[()]


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if (draw := first_draw((v,))) is not None:
        note_precision(draw, (a,))
    if sorter is not None:
        a = np.asarray(a)[sorter]
    # Both become one type, in which they are compared.
    kind = np.result_type(_strong_dtype(a), _strong_dtype(v))
    cells, values = _as_typed_objects(a, kind), _as_typed_objects(v, kind)
    return sorted_positions(cells, values, "right" if side == "right" else "left")


def sorted_positions(cells: Any, values: Any, side: Any) -> Any:
    """Return where values lie among sorted cells, one by one: they are not compared together."""
    # As Python's numbers: numpy's would ask the draw how to apply a ufunc at each comparison.
    numbers = [x.item() if isinstance(x, np.generic) else x for x in cells.ravel().tolist()]
    search = bisect_right if side == "right" else bisect_left
    positions = [search(numbers, x) for x in values.ravel().tolist()]
    return np.array(positions, dtype=np.intp).reshape(values.shape)[()]


def _strong_dtype(x: Any) -> np.dtype[Any]:
    """Return the type of an array of this, which numbers of Python's have as well."""
    array = as_objects(x)
    return common_type(array.ravel().tolist()) if array.dtype == object else array.dtype


def _as_typed_objects(x: Any, kind: np.dtype[Any]) -> Any:
    array = as_objects(x)
    return cast_objects(element_list(array), kind).reshape(array.shape)


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if out is not None:
        return run_on_values(np.round, (a, decimals, out), {}, name="np.round(out=)")
    if isinstance(a, Draw):
        a = a.cast(np.float64) if type(a.machine.sample) is float else a
        return a.nearest(np.round) if decimals == 0 else a.rounded_to(decimals, np.round)
    return a.round(decimals)


def _like(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(prototype: Any, *args: Any, **kwargs: Any) -> Any:
        plain = np.empty(np.shape(prototype), dtype=_promotion_kind(prototype))
        return original(plain, *args, **kwargs)

    return make


def _kind_or_type(x: Any) -> Any:
    return _promotion_kind(x) if isinstance(x, Draw) or holds_objects(x) else x


def _array_equal(x: Any, y: Any, equal_nan: bool = False) -> bool:
    if np.shape(x) != np.shape(y) or equal_nan:
        return bool(run_on_values(np.array_equal, (x, y, equal_nan), {}, name="np.array_equal"))
    return bool(np.all(np.equal(x, y)))


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return a read-only view, as numpy does: several elements may be the same one."""
    return _typed_view(np.broadcast_to(as_objects(array), shape), array)


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    views = np.broadcast_arrays(*map(as_objects, arrays))
    return type(views)(map(_typed_view, views, arrays))


def _typed_view(view: Any, array: Any) -> Any:
    if not holds_objects(view):
        return view
    shown = view.view(DrawArray)
    shown._real = result_dtype(np.asarray, array)
    return shown


FUNCTION_RULES: dict[Any, Callable[..., Any]] = {
    **JOIN_RULES,
    np.broadcast_to: _broadcast_to,
    np.broadcast_arrays: _broadcast_arrays,
    np.where: _where,
    np.clip: _clip_function,
    np.round: _round,
    np.around: _round,
    np.searchsorted: _searchsorted,
    np.digitize: lambda x, bins, right=False: _searchsorted(bins, x, "left" if right else "right"),
    np.result_type: lambda *parts: np.result_type(*map(_kind_or_type, parts)),
    np.can_cast: lambda x, to, casting="same_kind": np.can_cast(_kind_or_type(x), to, casting),
    np.array_equal: _array_equal,
    **{f: _like(f) for f in (np.zeros_like, np.ones_like, np.empty_like, np.full_like)},
}

_ARRAY_METHODS = names(
    "compress conj conjugate copy cumprod cumsum diagonal flatten item max min prod ravel repeat "
    "reshape sort squeeze sum swapaxes take tolist transpose T mT base flags imag ndim real shape "
    "size strides view itemsize nbytes device setflags ctypes data"
)
"""Methods and attributes of arrays that numpy may run as they are, or that have a rule below."""


_COMPARISON_METHODS = names("all any argpartition argsort nonzero searchsorted")
"""Methods of arrays that give no elements, but what their comparisons say."""


def _array_method(name: str) -> Callable[..., Any]:
    def on_elements(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.view(np.ndarray), name)(*args, **kwargs)

    def on_values(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
        function = getattr(np.ndarray, name)
        return run_on_values(function, (self, *args), kwargs, name=f".{name}()")

    return on_elements if name in _COMPARISON_METHODS else on_values


def _view(self: DrawArray, *args: Any, **kwargs: Any) -> Any:
    if not kwargs and args and args[0] in (np.ndarray, DrawArray):
        return np.ndarray.view(self, *args)
    return run_on_values(np.ndarray.view, (self, *args), kwargs, name=".view()")


def _nested_python_values(x: Any) -> Any:
    return [*map(_nested_python_values, x)] if isinstance(x, list) else as_python_value(x)


for _name in dir(np.ndarray):
    _value = getattr(np.ndarray, _name)
    _known = _name.startswith("_") or _name in _ARRAY_METHODS or _name in vars(DrawArray)
    if callable(_value) and not _known:
        setattr(DrawArray, _name, _array_method(_name))
for _name, _new in {
    "view": _view,
    "tolist": lambda self: _nested_python_values(np.ndarray.tolist(self)),
    "item": lambda self, *args: _nested_python_values(np.ndarray.item(self, *args)),
    "itemsize": property(lambda self: self.dtype.itemsize),
    "nbytes": property(lambda self: self.dtype.itemsize * self.size),
    "fill": _fill,
    "flat": property(_FlatView, lambda self, values: operator.setitem(self.flat, ..., values)),
    "put": lambda self, indices, values, mode="raise": JOIN_RULES[np.put](
        self, indices, values, mode
    ),
}.items():
    setattr(DrawArray, _name, _new)


def _apply_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    rule = FUNCTION_RULES.get(func)
    if rule is not None:
        return rule(*args, **kwargs)
    if func not in MOVE_FUNCTIONS:
        return run_on_values(func, args, kwargs, name=f"np.{func.__name__}")
    inside = tuple(kind for kind in types if not issubclass(kind, Draw))
    plain = np.empty(0)
    result = np.ndarray.__array_function__(plain, func, inside, args, kwargs)
    if holds_objects(result) and not isinstance(result, DrawArray):
        return make_draw_array(result.ravel().tolist(), result.shape)
    return simplify_array(result) if isinstance(result, DrawArray) else result


ARRAY_HOOKS.apply_function = _apply_function
