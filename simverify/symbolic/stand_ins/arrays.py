"""Stand-ins for the functions of numpy that make arrays of lists of draws.

numpy would make arrays of objects, in which every draw keeps the type that it had: a float16
beside a double is no double then. Where code was stopped by that, these names are replaced in its
modules.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simverify.symbolic.draws.attributes import boxed
from simverify.symbolic.draws.in_arrays.arrays import DrawArray, draw_array, is_symbolic, refuse
from simverify.symbolic.draws.in_arrays.blanks import blank_run, objects
from simverify.symbolic.draws.in_arrays.functions import FUNCTIONS, MOVES
from simverify.symbolic.draws.in_arrays.joins import RULES
from simverify.symbolic.draws.in_arrays.ufuncs import UFUNCS

_OF_SEVERAL = {
    "block", "column_stack", "concatenate", "dstack", "hstack", "stack", "vstack",
}  # fmt: skip
"""What is given a list of arrays; elsewhere a list is one array."""

_MAKERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")


def array_twins() -> dict[str, Any]:
    """Return what stands in for numpy's functions that are given lists of draws."""
    functions = {*MOVES, *FUNCTIONS}
    listed = {
        name: _of_lists(function, several=name in _OF_SEVERAL)
        for name, function in vars(np).items()
        if callable(function) and not isinstance(function, type) and _is_among(function, functions)
    }
    made = {name: _made(getattr(np, name)) for name in _MAKERS}
    unfollowed = {
        name: _Unfollowed(ufunc)
        for name, ufunc in vars(np).items()
        if isinstance(ufunc, np.ufunc) and ufunc not in UFUNCS
    }
    return {
        **unfollowed,
        **listed,
        **made,
        "fromiter": _made(np.fromiter),
        "full": _full,
        "full_like": _full_like,
    }


class _Unfollowed:
    """A ufunc without a rule, which would ask the numbers beside the draws of a tensor for one."""

    def __init__(self, ufunc: Any) -> None:
        self._ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arrays = [x.numpy() for x in args if hasattr(x, "numpy")]
        if any(map(is_symbolic, arrays)):
            refuse(arrays, f"np.{self._ufunc.__name__} of draws")
        return self._ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)


def _is_among(function: Any, functions: set[Any]) -> bool:
    try:
        return function in functions
    except TypeError:
        return False


def _made(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(data: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, Iterator):
            data = list(data)
        if isinstance(data, DrawArray) and original is not np.array and not args and not kwargs:
            same = dtype is None or np.dtype(dtype) == data.dtype
            return data if same else data.astype(dtype)
        if not _holds_draw(data):
            return original(data, dtype, *args, **kwargs)
        like = blank_run(original, (data, dtype, *args), kwargs)
        return draw_array(_elements(data), like.shape, like.dtype)

    return make


def _of_lists(original: Callable[..., Any], *, several: bool) -> Callable[..., Any]:
    rule = RULES.get(original)

    def function(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], list | tuple) and _holds_draw(args[0]):
            first = args[0]
            arrays = list(map(_listed, first)) if several else _listed(first)
            args = (arrays, *args[1:])
        if rule is not None and any(map(_holds_draw, (*args, *kwargs.values()))):
            # numpy hands on only what it looks for draws in.
            return rule(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _listed(x: Any) -> Any:
    """Return a list with draws as an array of them."""
    if not (isinstance(x, list | tuple) and _holds_draw(x)):
        return x
    return _typed(x)


def _typed(data: Any) -> Any:
    """Return an array of draws and numbers, all of one type."""
    return draw_array(_elements(data), np.shape(blank_run(np.asarray, (data,), {})))


def _elements(data: Any) -> "list[Any]":
    # Arrays of shape () are taken for elements.
    return [x[()] if type(x) is DrawArray else x for x in boxed(data).ravel().tolist()]


def _full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if not _holds_draw(fill_value):
        return np.full(shape, fill_value, dtype, **kwargs)
    like = blank_run(np.full, (shape, fill_value, dtype), kwargs)
    wide = np.broadcast_to(np.asarray(objects(fill_value), dtype=object), like.shape)
    return draw_array(wide.ravel().tolist(), like.shape, like.dtype)


def _full_like(prototype: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    return _full(np.shape(prototype), fill_value, dtype or prototype.dtype, **kwargs)


def _holds_draw(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_holds_draw, data))
    return is_symbolic(data)
