"""numpy's functions that join arrays, choose among them, or write into them.

They move elements, and what they give has a type of its own, which :mod:`.blanks` asks for: of a
Python number beside 16 bits it is 16 bits, of an array of doubles it is doubles.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import (
    DrawArray,
    as_objects,
    decided_index,
    draw_array,
    first_draw,
    holds_objects,
    is_symbolic,
)
from simverify.symbolic.draws.in_arrays.blanks import blank_copy, blank_run, objects, retyped
from simverify.symbolic.draws.in_arrays.elementwise import on_values
from simverify.symbolic.draws.scalars import ARRAYS
from simverify.symbolic.errors import FloatOfDraw

Rule = Callable[..., Any]
Place = tuple[int, str]

_JOINS: dict[Any, tuple[Place, ...]] = {
    np.concatenate: ((0, "arrays"),),
    np.stack: ((0, "arrays"),),
    np.hstack: ((0, "tup"),),
    np.vstack: ((0, "tup"),),
    np.dstack: ((0, "tup"),),
    np.column_stack: ((0, "tup"),),
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

_SEVERAL = {
    np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.select,
    np.choose,
}  # fmt: skip
"""What is given a list of arrays first; elsewhere a list is one array."""

_WRITES: dict[Any, tuple[Place, Place]] = {
    np.copyto: ((0, "dst"), (1, "src")),
    np.put: ((0, "a"), (2, "v")),
    np.place: ((0, "arr"), (2, "vals")),
    np.putmask: ((0, "a"), (2, "values")),
    np.fill_diagonal: ((0, "a"), (1, "val")),
}
"""What writes values into an array: where among the arguments both are."""

_OF_TYPES = {"dtype", "casting"}


def _joining(func: Any) -> Rule:
    def join(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        args, kwargs = _placed(func, args, {k: x for k, x in kwargs.items() if k != "out"})
        told = kwargs if out is None else kwargs | {"out": blank_copy(out)}
        like = blank_run(func, args, told)
        if not isinstance(like, np.ndarray) or like.dtype.kind not in "biuf":
            return on_values(func, args, kwargs, name=f"np.{func.__name__}")
        kept = {key: x for key, x in kwargs.items() if key not in _OF_TYPES}
        args, kept = _with(args, kept, _JOINS[func], several=func in _SEVERAL)
        joined = _array_of(func(*args, **kept), like.dtype, wraps=func is not np.insert)
        if out is None:
            return joined
        out[...] = joined
        return out

    return join


def _writing(func: Any) -> Rule:
    def write(*args: Any, **kwargs: Any) -> None:
        args, kwargs = _placed(func, args, kwargs)
        (place, name), values = _WRITES[func]
        array = args[place] if place < len(args) else kwargs[name]
        if holds_objects(array) and type(array) is not DrawArray:
            written, kept = _with(args, kwargs, ((place, name), values))
            func(*written, **kept)
            return
        blank_run(func, *_with(args, kwargs, ((place, name),), make=blank_copy))
        if type(array) is not DrawArray:
            if array.dtype.kind != "f" or (draw := first_draw((*args, *kwargs.values()))) is None:
                on_values(func, args, kwargs, name=f"np.{func.__name__}")
                return
            draw.refuse("float() of a draw", FloatOfDraw)
        plain = array.view(np.ndarray)
        kept = {key: x for key, x in kwargs.items() if key not in _OF_TYPES}
        args, kept = _with(args, kept, ((place, name), values))
        func(*args, **kept)
        plain[...] = retyped(plain, array.dtype, wraps=False)

    return write


def _placed(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the arguments with those read that say where values go."""
    places = _JOINS.get(func) or _WRITES[func]
    numbers, names = zip(*places, strict=True)
    name = f"np.{func.__name__}"
    return (
        tuple(x if i in numbers else _read(x, name) for i, x in enumerate(args)),
        {key: x if key in names else _read(x, name) for key, x in kwargs.items()},
    )


def _read(x: Any, name: str) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_read(y, name) for y in x)
    return ARRAYS.known(x, name) if is_symbolic(x) or type(x) is DrawArray else x


def _with(
    args: Any,
    kwargs: dict[str, Any],
    places: Sequence[Place],
    *,
    several: bool = False,
    make: Rule | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments with those at some places as objects, or what ``make`` makes of them."""
    args, kwargs = list(args), dict(kwargs)
    for nth, (place, name) in enumerate(places):

        def made(x: Any, first: bool = nth == 0) -> Any:
            return objects(x, several=several and first) if make is None else make(x)

        if place < len(args):
            args[place] = made(args[place])
        elif name in kwargs:
            kwargs[name] = made(kwargs[name])
    return tuple(args), kwargs


def _array_of(joined: Any, kind: np.dtype[Any], *, wraps: bool = True) -> Any:
    cast = retyped(joined, kind, wraps=wraps)
    return draw_array(cast.ravel().tolist(), joined.shape, kind)


def _block(arrays: Any) -> Any:
    return _array_of(np.block(_leaves(arrays)), blank_run(np.block, (arrays,), {}).dtype)


def _leaves(x: Any) -> Any:
    return [_leaves(y) for y in x] if isinstance(x, list) else objects(x)


def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Any:
    shape = np.shape(x)
    conditions = _read(condlist, "np.piecewise")
    # For what it raises.
    np.piecewise(np.zeros(shape), conditions, [0] * len(funclist))
    masks = np.asarray(conditions, dtype=bool).reshape(-1, *shape)
    if len(masks) == len(funclist) - 1:
        masks = np.concatenate([masks, ~masks.any(axis=0, keepdims=True)])
    kind = blank_run(np.asarray, (x,), {}).dtype
    source = retyped(np.atleast_1d(np.asarray(objects(x), dtype=object)), kind, wraps=True)
    source = source.view(DrawArray)
    source._real = kind
    result = draw_like(np.zeros(np.shape(source), kind))
    for mask, function in zip(masks.reshape(-1, *source.shape), funclist, strict=True):
        part = source[mask]
        if not callable(function):
            result[mask] = function
        elif part.size:
            result[mask] = function(part, *args, **kwargs)
    return draw_array(result.view(np.ndarray).ravel().tolist(), shape, kind)


def draw_like(plain: Any) -> DrawArray:
    """Return a plain array as one that may hold draws."""
    holder = plain.astype(object).view(DrawArray)
    holder._real = plain.dtype
    holder[...] = plain
    return holder  # type: ignore[no-any-return]


def _fill(self: DrawArray, value: Any) -> None:
    blank_run(np.ones(1, self.dtype).fill, (value,), {})
    self[...] = value if not isinstance(value, np.ndarray) else value.reshape(())


def _put(self: DrawArray, indices: Any, values: Any, mode: Any = "raise") -> None:
    RULES[np.put](self, indices, values, mode)


class _Flat:
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
        array, index = self._array, decided_index(index)
        plain = array.view(np.ndarray)
        if np.ndim(value) == 0:
            plain.flat[index] = as_objects(array.conform(value))
            return
        # For what it raises. Of several values the first ones are taken, or they come again.
        np.ones(array.shape, array.dtype).flat[index] = blank_run(np.asarray, (value,), {})
        plain.flat[index] = objects(value)
        plain[...] = retyped(plain, array.dtype, wraps=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array, name)

    def copy(self) -> Any:
        """Return the elements as an array of one dimension."""
        return self._array.reshape(-1).copy()


def _compared(name: str) -> Rule:
    op = getattr(operator, name)
    return lambda flat, other: op(flat.copy(), other)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(_Flat, f"__{_name}__", _compared(_name))


DrawArray.fill = _fill  # type: ignore[method-assign, assignment]
DrawArray.flat = property(_Flat)  # type: ignore[assignment]
DrawArray.put = _put  # type: ignore[method-assign, assignment]

RULES: dict[Any, Rule] = {
    **{func: _joining(func) for func in _JOINS},
    **{func: _writing(func) for func in _WRITES},
    np.block: _block,
    np.piecewise: _piecewise,
}
"""By function: what stands for it where there are draws."""
