"""Numpy arrays that hold symbolic draws.

A :class:`DrawArray` is an object array whose comparisons fork element by element, in C
order, into plain boolean arrays; once no element is symbolic it becomes a plain array.
Sorting, ``argmax`` and ``searchsorted`` work through the comparisons of the elements. Its
elements are of the type that the real array's have, and its ``dtype`` is that type.
"""

import operator
from typing import Any

import numpy as np

from simverify.symbolic.draws.attributes import boxed
from simverify.symbolic.draws.scalars import ARRAYS, Draw
from simverify.symbolic.draws.several.sites import this_site
from simverify.symbolic.draws.several.winners import Winner, decided, winner
from simverify.symbolic.errors import ArrayOfDraws

Elements = np.ndarray[Any, Any]


class DrawArray(np.ndarray[Any, Any]):
    """An object array of draws and numbers; see the module."""

    _real: Any

    # Code may ask for its type.
    __class__ = property(lambda self: np.ndarray)

    def __array_finalize__(self, made_from: Any) -> None:
        self._real = getattr(made_from, "_real", None)

    @property
    def dtype(self) -> Any:
        """The type that the array has for the code."""
        stored = super().dtype
        if stored.kind != "O":
            return stored
        if self._real is None:
            self._real = common_type(self.view(np.ndarray).ravel().tolist())
        return self._real

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAYS.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ARRAYS.apply_function(func, types, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(decided_index(index))
        if isinstance(result, DrawArray):
            return settle(result) if result.ndim == 0 else result
        return self._typed(result)

    def __setitem__(self, index: Any, value: Any) -> None:
        index, stored = decided_index(index), self.conform(value)
        if isinstance(stored, np.ndarray):
            place = self.view(np.ndarray)[index]
            if not isinstance(place, np.ndarray):
                # For what it raises: one number takes no array.
                one, ones = np.ones(1, self.dtype), np.ones(stored.shape, self.dtype)
                one[0] = ones.tolist() if isinstance(value, list | tuple) else ones
                stored = stored.ravel()[0]
        super().__setitem__(index, stored)

    def conform(self, value: Any) -> Any:
        """Return what is stored where a value is assigned: it takes the array's type."""
        if not isinstance(value, Draw):
            value = as_objects(value) if isinstance(value, list | tuple) else value
            if not is_symbolic(value):
                value = np.asarray(decided(value), dtype=self.dtype)
                if not value.ndim:
                    return self._typed(value.item())
                return of_objects(list(value.ravel())).reshape(value.shape)
        elements = as_objects(value)
        cast = [converted(x, self.dtype) for x in elements.ravel().tolist()]
        if elements.ndim == 0:
            return cast[0]
        return of_objects(cast).reshape(elements.shape)

    def _typed(self, x: Any) -> Any:
        return x if isinstance(x, Draw) or type(x) is Winner else self.dtype.type(x)

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self[()])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        result = super().__array_wrap__(array, context, return_scalar)
        return settle(result) if isinstance(result, DrawArray) else result

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the elements as another type: integers and booleans may fork."""
        kind = np.dtype(dtype)
        if args or kwargs:
            np.ones(1, self.dtype).astype(dtype, *args, **kwargs)  # for what it raises
        if kwargs.get("copy", True) is False and kind == self.dtype:
            return self
        flat = [converted(x, kind) for x in self.view(np.ndarray).ravel().tolist()]
        return draw_array(flat, self.shape, kind)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """Index of the largest element; noise that races forks once, by outcome, when read."""
        return self._arg(axis, out, keepdims, largest=True)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """Index of the smallest element, as ``argmax``."""
        return self._arg(axis, out, keepdims, largest=False)

    def _arg(self, axis: Any, out: Any, keepdims: Any, *, largest: bool) -> Any:
        plain = self.view(np.ndarray)
        if out is not None:
            refuse((plain,), "argmax(out=) of draws")
        lanes = plain.reshape(1, -1) if axis is None else np.moveaxis(plain, axis, -1)
        shape = lanes.shape[:-1]
        site = this_site()
        each = [winner(lanes[x].tolist(), site, largest=largest) for x in np.ndindex(shape)]
        found = draw_array(each, shape) if each else np.empty(shape, dtype=np.intp)
        if keepdims is True:
            return found.reshape([1] * self.ndim) if axis is None else np.expand_dims(found, axis)
        return found[0] if axis is None else found

    def clip(self, min: Any = None, max: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        """Hold every element between two bounds."""
        return np.clip(self, min, max, *args, **kwargs)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Round every element."""
        if out is not None:
            refuse((self,), "round(out=) of draws")
        flat = [x.round(decimals) for x in self.view(np.ndarray).ravel().tolist()]
        return draw_array(flat, self.shape)


DrawArray.__name__, DrawArray.__module__ = np.ndarray.__name__, np.ndarray.__module__


def converted(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return an element as one of another type."""
    if type(x) is Winner:
        return x if dtype.kind in "iu" else dtype.type(x.read())
    return x.as_type(dtype) if isinstance(x, Draw) else dtype.type(x)


def common_type(elements: "list[Any]") -> np.dtype[Any]:
    """Return the type of an array of these elements."""
    types = {
        np.intp if type(x) is Winner else type(x.machine.sample if isinstance(x, Draw) else x)
        for x in elements
    }
    if len(types) == 1 and (kind := _DTYPES.get(next(iter(types)))) is not None:
        return kind
    for x in elements:
        if isinstance(x, Draw):
            x.check_64_bits()
    kinds = {
        np.dtype(np.intp) if type(x) is Winner
        else np.asarray(x.machine.sample if isinstance(x, Draw) else x).dtype
        for x in elements
    }  # fmt: skip
    return np.result_type(*kinds) if kinds else np.dtype(np.float64)


_DTYPES: dict[Any, np.dtype[Any]] = {
    kind: np.dtype(kind)
    for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_, bool)
}
_DTYPES[float] = np.dtype(np.float64)
"""Types of elements whose array has this one type; Python's integers may be too large for one."""


def of_objects(elements: "list[Any]") -> Elements:
    """Return an array of these very objects; numpy would make numbers of Python's of its own."""
    return np.fromiter(elements, dtype=object, count=len(elements))


def draw_array(elements: "list[Any]", shape: Any, dtype: Any = None) -> Any:
    """Return an array of this shape; a plain array if no element is symbolic."""
    kind = common_type(elements) if dtype is None else dtype
    if not any(isinstance(x, Draw) or type(x) is Winner for x in elements):
        return np.array(elements, dtype=kind).reshape(shape)
    if (
        kind == np.float16
        and (draw := first_draw(elements)) is not None
        and draw.source.refuses_arrays
    ):
        # In a list beside doubles numpy would keep its draws in 16 bits, and ask nobody.
        draw.refuse("an array of 16-bit draws", ArrayOfDraws)
    made = typed(elements, kind).reshape(shape).view(DrawArray)
    made._real = kind
    return made


def typed(elements: "list[Any]", kind: np.dtype[Any]) -> Elements:
    """Return an array of objects, all of one type."""
    return of_objects([one_of(x, kind) for x in elements])


def one_of(x: Any, kind: np.dtype[Any]) -> Any:
    """Return an element as one of this type, which it may be already."""
    if type(x) is kind.type or (isinstance(x, Draw) and isinstance(x.machine.sample, kind.type)):
        return x
    return converted(x, kind)


def settle(array: Elements) -> Any:
    """Turn an object array of numbers alone into a plain one, a 0-d one into its element."""
    if array.view(np.ndarray).dtype != object:
        return array.view(np.ndarray)[()] if array.ndim == 0 else array.view(np.ndarray)
    flat = array.ravel().view(np.ndarray).tolist()
    if not any(isinstance(x, Draw) or type(x) is Winner for x in flat):
        kind = array.dtype if isinstance(array, DrawArray) else None
        plain = np.array(flat if flat else [], dtype=kind if flat else kind or np.float64)
        plain = plain.reshape(array.shape)
        return plain[()] if array.ndim == 0 else plain
    return flat[0] if array.ndim == 0 else array.view(DrawArray)


def is_symbolic(x: Any) -> bool:
    """Whether a value is a draw, the winner of a race, or an array with one."""
    if isinstance(x, Draw) or type(x) is Winner:
        return True
    return holds_objects(x) and any(
        isinstance(y, Draw) or type(y) is Winner for y in x.view(np.ndarray).ravel().tolist()
    )


def holds_objects(x: Any) -> bool:
    """Whether a value is an array of objects; one of draws says another type."""
    return isinstance(x, np.ndarray) and (type(x) is DrawArray or x.dtype == object)


def decided_index(index: Any) -> Any:
    """Read an index: whole draws in it are settled."""
    if isinstance(index, tuple):
        return tuple(map(decided_index, index))
    if isinstance(index, DrawArray):
        return ARRAYS.known(index, "an index")
    return index


def as_objects(x: Any) -> Elements:
    """Return an array that is not asked how to apply a ufunc; scalars keep their type."""
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    if isinstance(x, list | tuple):
        return boxed(x) if first_draw(x) is not None else np.asarray(x).view(np.ndarray)
    array = np.empty((), dtype=object)
    array[()] = x
    return array


def first_draw(inputs: Any) -> Draw | None:
    """Return the first draw in some values."""
    for x in inputs:
        if isinstance(x, Draw):
            return x
        if isinstance(x, list | tuple):
            found = first_draw(x)
            if found is not None:
                return found
        if holds_objects(x):
            for y in x.view(np.ndarray).ravel().tolist():
                if isinstance(y, Draw):
                    return y
    return None


def refuse(inputs: Any, call: str) -> Any:
    """Refuse a call, by the first draw in it."""
    draw = first_draw(inputs)
    assert draw is not None
    draw.refuse(call)


def _holding(draw: Draw) -> DrawArray:
    """Return an array of shape () of one draw."""
    scalar = np.empty((), dtype=object).view(DrawArray)
    np.ndarray.__setitem__(scalar, (), draw)
    return scalar


ARRAYS.of, ARRAYS.holding = draw_array, _holding
