"""Numpy arrays that hold symbolic draws.

A :class:`DrawArray` is an object array whose comparisons fork element by element, in C
order, into plain boolean arrays; once no element is symbolic it becomes a float array.
Sorting, ``argmax`` and ``searchsorted`` work through the comparisons of the elements.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.scalars import ARRAYS, Draw
from simverify.symbolic.draws.ufuncs import UFUNCS
from simverify.symbolic.draws.winners import Winner, decided, whole, winner

Elements = np.ndarray[Any, Any]


class DrawArray(np.ndarray[Any, Any]):
    """An object array of draws and numbers; see the module."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain = _REPLACED.get(func)
        if plain is not None:
            return plain(*args, **kwargs)
        inside = tuple(ndarray_type for ndarray_type in types if ndarray_type is not Draw)
        result = super().__array_function__(func, inside, args, kwargs)
        return settle(result) if isinstance(result, DrawArray) else result

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        if isinstance(result, float):
            return np.float64(result)
        if type(result) is int:
            return np.intp(result)
        return settle(result) if isinstance(result, DrawArray) and result.ndim == 0 else result

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        result = super().__array_wrap__(array, context, return_scalar)
        return settle(result) if isinstance(result, DrawArray) else result

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Integers and booleans fork; other dtypes leave the draws as they are."""
        kind = np.dtype(dtype).kind
        if kind in "iu":
            cut = _map(whole, [self])
            return cut if is_symbolic(cut) else cut.view(np.ndarray).astype(dtype)
        if kind == "b":
            return _map(bool, [self]).view(np.ndarray).astype(dtype)
        real = np.dtype(dtype)
        return _map(lambda x: x.cast(real) if isinstance(x, Draw) else real.type(x).item(), [self])

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """Index of the largest element; noise that races forks once, by outcome, when read."""
        return self._arg(axis, out, keepdims, largest=True)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """Index of the smallest element, as ``argmax``."""
        return self._arg(axis, out, keepdims, largest=False)

    def _arg(self, axis: Any, out: Any, keepdims: Any, *, largest: bool) -> Any:
        plain = self.view(np.ndarray)
        if out is not None:
            return _first_draw((plain,))._refuse("argmax(out=) of draws")  # type: ignore[union-attr]
        lanes = plain.reshape(1, -1) if axis is None else np.moveaxis(plain, axis, -1)
        shape = lanes.shape[:-1]
        each = [winner(lanes[place].tolist(), largest=largest) for place in np.ndindex(shape)]
        found = draw_array(each, shape) if each else np.empty(shape, dtype=np.intp)
        if keepdims is True:
            return found.reshape([1] * self.ndim) if axis is None else np.expand_dims(found, axis)
        return found[0] if axis is None else found

    def clip(self, min: Any = None, max: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        """Hold every element between two bounds."""
        result: Any = self
        if min is not None:
            result = np.maximum(result, min)
        return result if max is None else np.minimum(result, max)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Round every element."""
        if out is not None:
            next(x for x in self.flat if isinstance(x, Draw))._refuse("round(out=) of draws")
        return _map(lambda x: round(x, decimals), [self])


def draw_array(elements: "list[Any]", shape: Any) -> Any:
    """Return an array of this shape; a plain array if no element is symbolic."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return settle(array.reshape(shape).view(DrawArray))


def settle(array: Elements) -> Any:
    """Turn an object array of numbers alone into a plain one, a 0-d one into its element."""
    flat = array.ravel().view(np.ndarray).tolist()
    if not any(isinstance(x, Draw) or type(x) is Winner for x in flat):
        plain = np.array(flat if flat else [], dtype=None if flat else np.float64)
        plain = plain.reshape(array.shape)
        return plain[()] if array.ndim == 0 else plain
    return flat[0] if array.ndim == 0 else array.view(DrawArray)


def is_symbolic(x: Any) -> bool:
    """Whether a value is a draw, the winner of a race, or an array with one."""
    if isinstance(x, Draw) or type(x) is Winner:
        return True
    return (
        isinstance(x, np.ndarray)
        and x.dtype == object
        and any(isinstance(y, Draw) or type(y) is Winner for y in x.flat)
    )


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc over draws, element by element."""
    draw = _first_draw(inputs)
    function = UFUNCS.get(ufunc) or _of_objects(ufunc)
    out = kwargs.pop("out", None)
    if draw is None:
        plain = [_plain(x) for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs, **({"out": out} if out else {}))
    meet(draw, inputs)
    if function is None or method not in ("__call__", "reduce", "accumulate", "outer"):
        draw._refuse(f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}")
    if method == "__call__":
        where = kwargs.pop("where", True)
        result = _map(function, list(inputs), where=where, out=out)
    else:
        plain = [x.view(np.ndarray) if isinstance(x, DrawArray) else x for x in inputs]
        result = getattr(np.frompyfunc(function, 2, 1), method)(
            *plain, **{k: v for k, v in kwargs.items() if k != "dtype" and v is not np._NoValue}
        )
        result = (
            settle(np.asarray(result, dtype=object)) if not isinstance(result, Draw) else result
        )
    if out is not None:
        out[0][...] = result
        return out[0]
    return result


def _of_objects(ufunc: Any) -> Callable[..., Any] | None:
    """Return a Python function that was made a ufunc, by np.vectorize or np.frompyfunc."""
    if ufunc.nout != 1 or set(ufunc.types) != {"O" * ufunc.nin + "->O"}:
        return None

    def call(*values: Any) -> Any:
        # Boxed, so that the draws are not asked how to apply it.
        symbolic = any(isinstance(x, Draw) for x in values)
        return ufunc(*map(_objects, values)) if symbolic else ufunc(*values)

    return call


def _plain(x: Any) -> Any:
    """Return a value without draws as numbers: the winners in it are read."""
    x = decided(x)
    return settle(x) if isinstance(x, DrawArray) else x


def meet(draw: Draw, inputs: Any) -> None:
    """Note the precision of arrays that meet a draw."""
    for x in inputs:
        if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f":
            draw.source.meet(x.dtype)


def _map(
    function: Callable[..., Any], inputs: list[Any], *, where: Any = True, out: Any = None
) -> Any:
    arrays = [_objects(x) for x in inputs]
    if all(a.ndim == 0 for a in arrays) and where is True:
        return function(*(_python(a[()]) for a in arrays))
    if where is not True:
        arrays.append(np.asarray(where))
    spread = np.broadcast_arrays(*arrays)
    shape = spread[0].shape
    columns = [list(map(_python, a.ravel().tolist())) for a in spread]
    if where is True:
        values = [function(*row) for row in zip(*columns, strict=True)]
    else:
        kept = np.broadcast_to(_objects(out[0]), shape).ravel().tolist() if out else None
        if kept is None:
            next(x for x in columns[0] if isinstance(x, Draw))._refuse("where= without out=")
        values = [
            function(*row) if use else old for *row, use, old in zip(*columns, kept, strict=True)
        ]
    return draw_array(values, shape)


def _python(x: Any) -> Any:
    """Unwrap a numpy scalar, whose operators would come back here."""
    # A winner passes for a scalar, and would be read here.
    return x if type(x) is Winner else x.item() if isinstance(x, np.generic) else x


def _objects(x: Any) -> Elements:
    if isinstance(x, Draw):
        array = np.empty((), dtype=object)
        array[()] = x
        return array
    return np.asarray(x).view(np.ndarray)


def _first_draw(inputs: tuple[Any, ...]) -> Draw | None:
    for x in inputs:
        if isinstance(x, Draw):
            return x
        if isinstance(x, list | tuple):
            found = _first_draw(tuple(x))
            if found is not None:
                return found
        if isinstance(x, np.ndarray) and x.dtype == object:
            for y in x.flat:
                if isinstance(y, Draw):
                    return y
    return None


def _where(condition: Any, *values: Any) -> Any:
    if is_symbolic(condition):
        condition = np.not_equal(condition, 0)
    if not values:
        return np.nonzero(condition)
    return _map(lambda c, x, y: x if c else y, [condition, *values])


def _clip_function(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kw: Any) -> Any:
    low, high = kw.pop("min", a_min), kw.pop("max", a_max)
    result = a
    if low is not None:
        result = np.maximum(result, low)
    if high is not None:
        result = np.minimum(result, high)
    if out is not None:
        out[...] = result
    return result


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if (draw := _first_draw((v,))) is not None:
        meet(draw, (a,))
    if sorter is not None:
        a = np.asarray(a)[sorter]
    return np.asarray(a, dtype=object).searchsorted(
        _objects(v), side="right" if side == "right" else "left"
    )


def _no_draws_inside(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        draw = _first_draw((*args, *kwargs.values()))
        if draw is None:
            return getattr(np, name)(*map(_plain, args), **kwargs)
        return draw._refuse(f"np.{name} of draws")

    return refuse


_REPLACED: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip_function,
    np.searchsorted: _searchsorted,
    np.digitize: lambda x, bins, right=False: _searchsorted(bins, x, "left" if right else "right"),
    **{
        getattr(np, name): _no_draws_inside(name)
        for name in (
            "unique", "quantile", "percentile", "median", "histogram", "interp", "mean", "var",
            "std", "dot", "matmul", "einsum", "save", "partition", "isclose", "allclose",
            "array_equal", "nanmax", "nanmin", "nansum", "nan_to_num", "convolve",
        )
    },
}  # fmt: skip


def _holding(draw: Draw) -> DrawArray:
    """Return an array of shape () of one draw."""
    scalar = np.empty((), dtype=object).view(DrawArray)
    scalar[()] = draw
    return scalar


ARRAYS.apply_ufunc, ARRAYS.of, ARRAYS.holding = apply_ufunc, draw_array, _holding
