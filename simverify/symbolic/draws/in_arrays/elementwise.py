"""numpy's ufuncs over arrays of draws, and functions of draws that are known value by value."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import (
    DrawArray,
    as_objects,
    common_type,
    converted,
    draw_array,
    first_draw,
    holds_objects,
    is_symbolic,
    of_objects,
    refuse,
    settle,
)
from simverify.symbolic.draws.in_arrays.blanks import as_int64, blank_copy, blank_run, type_given
from simverify.symbolic.draws.in_arrays.ufuncs import UFUNCS
from simverify.symbolic.draws.scalars import ARRAYS, Draw
from simverify.symbolic.draws.several.winners import decided

Elements = np.ndarray[Any, Any]


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc over draws, element by element."""
    draw = first_draw(inputs)
    function = UFUNCS.get(ufunc) or _of_objects(ufunc)
    out = kwargs.pop("out", None)
    if method == "at":
        return on_values(ufunc.at, inputs, kwargs, name=f"np.{ufunc.__name__}.at")
    if draw is None:
        plain = [_plain(x) for x in inputs]
        if out is None or not any(holds_objects(x) for x in out):
            return getattr(ufunc, method)(*plain, **kwargs, **({"out": out} if out else {}))
        # An array that held draws, and may hold numbers alone by now.
        where = kwargs.get("where", True)
        if len(out) != 1 or (where is not True and method != "__call__"):
            raise TypeError(f"np.{ufunc.__name__} into parts of an array that held draws")
        _must_take(ufunc, method, inputs, kwargs, out)
        into = ... if where is True else np.broadcast_to(np.asarray(where, bool), out[0].shape)
        every = {**kwargs, "where": True} if "where" in kwargs else kwargs
        result = getattr(ufunc, method)(*plain, **every)
        out[0][into] = np.broadcast_to(result, out[0].shape)[into]
        return out[0]
    meet(draw, inputs)
    if function is None or method not in ("__call__", "reduce", "accumulate", "outer"):
        name = f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}"
        return on_values(getattr(ufunc, method), inputs, kwargs, name=name)
    if set(kwargs) - _KNOWN or kwargs.get("dtype") is not None:
        draw.refuse(f"np.{ufunc.__name__} of draws with {', '.join(kwargs)}")
    if out is not None:
        _must_take(ufunc, method, inputs, kwargs, out)
    if method == "__call__":
        result = map_elements(function, list(inputs), where=kwargs.get("where", True), out=out)
    else:
        kind = _reduced_in(ufunc, method, inputs[0])
        if kind is not None and kind != inputs[0].dtype:
            wide = getattr(ufunc, method)(inputs[0].astype(kind), *inputs[1:], **kwargs)
            kind = inputs[0].dtype if kind == np.float32 else kind
            return wide.astype(kind) if isinstance(wide, np.ndarray) else converted(wide, kind)
        plain = [_boxed(x) for x in inputs] if method == "outer" else [
            x.view(np.ndarray) if isinstance(x, DrawArray) else x for x in inputs
        ]  # fmt: skip
        kept = {k: v for k, v in kwargs.items() if k != "dtype" and v is not np._NoValue}
        kept |= _first_of(ufunc, method, inputs, kept)
        result = getattr(_in_any_order(function, ufunc), method)(*plain, **kept)
        if not isinstance(result, Draw):
            result = settle(np.asarray(result, dtype=object))
    if out is not None:
        out[0][...] = result
        return out[0]
    return result


def _reduced_in(ufunc: Any, method: str, array: Any) -> "np.dtype[Any] | None":
    """Return the type in which elements are added up: of short integers a long one.

    Those of 16 bits are added in float32, and their sum is rounded.
    """
    if method not in ("reduce", "accumulate") or ufunc not in (np.add, np.multiply):
        return None
    if not isinstance(array, DrawArray):
        return None
    if array.dtype == np.float16 and method == "reduce":
        return np.dtype(np.float32)
    kind: np.dtype[Any] = getattr(ufunc, method)(np.ones(1, array.dtype)).dtype
    return kind


def _must_take(ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any], out: Any) -> None:
    """Raise what numpy raises where arrays do not take the type or the shape of a result."""
    copies = tuple(map(blank_copy, out))
    blank_run(getattr(ufunc, method), inputs, {**kwargs, "out": copies})


def _first_of(ufunc: Any, method: str, inputs: Any, kept: dict[str, Any]) -> dict[str, Any]:
    """Return what a reduction starts from, of the type that it has."""
    if method != "reduce" or not {"initial", "where"} & set(kept):
        return {}
    first = kept.get("initial", ufunc.identity)
    kind = type_given(ufunc.reduce, *inputs, **kept)
    return {} if first is None else {"initial": converted(first, kind)}


_KNOWN = {"where", "axis", "keepdims", "dtype", "initial", "out"}


def _in_any_order(function: Callable[..., Any], ufunc: Any) -> Any:
    """Return a ufunc of objects, which reduces several axes at once where the real one does."""
    if ufunc.identity is None and ufunc not in (np.maximum, np.minimum, np.fmax, np.fmin):
        return np.frompyfunc(function, 2, 1)
    return np.frompyfunc(function, 2, 1, identity=None)


def _of_objects(ufunc: Any) -> Callable[..., Any] | None:
    """Return a Python function that was made a ufunc, by np.vectorize or np.frompyfunc."""
    if ufunc.nout != 1 or set(ufunc.types) != {"O" * ufunc.nin + "->O"}:
        return None

    def call(*values: Any) -> Any:
        # Boxed, so that the draws are not asked how to apply it.
        symbolic = any(isinstance(x, Draw) for x in values)
        return ufunc(*map(as_objects, map(_as_python, values))) if symbolic else ufunc(*values)

    return call


def _as_python(x: Any) -> Any:
    if isinstance(x, Draw):
        return x.as_python()
    return x.item() if isinstance(x, np.generic) else x


def _plain(x: Any) -> Any:
    """Return a value without draws as numbers, in lists too: the winners in it are read."""
    x = decided(x)
    if type(x) in (list, tuple):
        return type(x)(map(_plain, x))
    return settle(x) if isinstance(x, DrawArray) else x


def meet(draw: Draw, inputs: Any) -> None:
    """Note the precision of arrays that meet a draw."""
    for x in inputs:
        if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f":
            draw.source.meet(x.dtype)


def map_elements(
    function: Callable[..., Any], inputs: list[Any], *, where: Any = True, out: Any = None
) -> Any:
    """Return ``function`` of every element, spread as numpy does."""
    arrays = [as_objects(x) for x in inputs]
    if all(a.ndim == 0 for a in arrays) and where is True:
        return function(*_as_ufuncs_see(a[()] for a in arrays))
    if where is not True:
        arrays.append(np.asarray(where))
    shape = arrays[0].shape
    alike = all(a.shape == shape for a in arrays)
    spread = arrays if alike else np.broadcast_arrays(*arrays)
    shape = spread[0].shape
    columns = [_elements(a) for a in spread]
    if where is True:
        values = [function(*row) for row in zip(*columns, strict=True)]
    else:
        kept = _elements(np.broadcast_to(as_objects(out[0]), shape)) if out else None
        if kept is None:
            return refuse(inputs, "where= without out=")
        values = [
            function(*row) if use else old for *row, use, old in zip(*columns, kept, strict=True)
        ]
    return draw_array(values, shape)


def _as_ufuncs_see(values: Any) -> Any:
    """Return scalars as numpy's: of Python's alone, ufuncs make its doubles and integers."""
    row = list(values)
    kinds = [type(x.machine.sample) if isinstance(x, Draw) else type(x) for x in row]
    if not all(kind in (float, int, bool) for kind in kinds):
        return row
    if float not in kinds:
        return [as_int64(x) for x in row] if int in kinds else row
    return [x.cast(np.float64) if isinstance(x, Draw) and k is float else x
            for x, k in zip(row, kinds, strict=True)]  # fmt: skip


def _boxed(x: Any) -> Elements:
    """Return an array of objects whose elements keep numpy's types."""
    array = as_objects(x)
    return of_objects(_elements(np.asarray(array))).reshape(array.shape)


def _elements(array: Elements) -> "list[Any]":
    return array.ravel().tolist() if array.dtype == object else list(array.ravel())


def on_values(func: Any, args: Any, kwargs: dict[str, Any], *, name: str) -> Any:
    """Run a function on each of the few values of whole draws, or refuse it by name."""
    if first_draw((*args, *kwargs.values())) is None:
        plain = [*map(_plain, args)], {key: _plain(x) for key, x in kwargs.items()}
    else:
        plain = [known(x, name) for x in args], {key: known(x, name) for key, x in kwargs.items()}
    result = func(*plain[0], **plain[1])
    for x, y in zip((*args, *kwargs.values()), (*plain[0], *plain[1].values()), strict=True):
        # Some functions change their arguments.
        if type(x) is DrawArray and x.ndim and x.flags.writeable:
            np.ndarray.__setitem__(x, ..., of_objects(list(y.ravel())).reshape(x.shape))
    return result


def known(x: Any, name: str) -> Any:
    """Return a value with its draws settled: one path for each of their values."""
    if isinstance(x, list | tuple):
        return type(x)(known(y, name) for y in x)
    if isinstance(x, Draw):
        return x.settle() if x.settles() else x.refuse(f"{name} of draws")
    if not holds_objects(x) or not is_symbolic(x):
        return _plain(x)
    elements = decided(x).view(np.ndarray)
    flat = [known(y, name) for y in elements.ravel().tolist()]
    return np.array(flat, dtype=common_type(flat)).reshape(elements.shape)


ARRAYS.apply_ufunc, ARRAYS.known = apply_ufunc, known
