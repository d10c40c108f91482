"""Lets code compute in float64 although it asks for less.

Rounding then vanishes, and a fault stays. The names of the coarser types in numpy and torch
stand for float64, so do their names in strings (``astype("float16")``), a tensor's
``half()`` gives doubles, and so does every torch call that is given a coarser type.
"""

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simverify.symbolic.whose import namespaces

if TYPE_CHECKING:
    from contextlib import ExitStack

Lift = Literal["half", "single"]
"""Which types are lifted to float64: the 16-bit ones, or float32 as well."""

LIFTED: dict[Lift, tuple[str, ...]] = {
    "half": ("float16", "half", "bfloat16"),
    "single": ("float16", "half", "bfloat16", "float32", "single", "float"),
}
"""Their names in numpy and torch, and those of the methods of a tensor that cast to them."""


_STRINGS: dict[Lift, tuple[str, ...]] = {
    "half": ("float16", "bfloat16", "f2", "<f2"),
    "single": ("float16", "bfloat16", "f2", "<f2", "float32", "f4", "<f4"),
}


def lifted_names(module: ModuleType, double: Any, lift: Lift) -> dict[str, Any]:
    """Return what stands in for the types of numpy or torch: its float64, for those lifted."""
    kinds = type(double)
    return {name: double for name in LIFTED[lift] if isinstance(getattr(module, name, None), kinds)}


def lifted_value(value: Any, lift: Lift) -> Any:
    """Return what stands for a value that names a type: a string, or numpy's dtype; or None."""
    if isinstance(value, np.dtype):
        return np.dtype(np.float64) if value.name in LIFTED[lift] else None
    return "float64" if isinstance(value, str) and value in _STRINGS[lift] else None


def lift_strings(code: Any, lift: Lift, stack: "ExitStack") -> None:
    """Replace constants that name types in the functions of ``code`` until ``stack`` closes."""
    for function in _functions(code):
        old = function.__code__
        new = _lifted(old, _STRINGS[lift])
        if new is not old:
            function.__code__ = new
            stack.callback(setattr, function, "__code__", old)


def _functions(code: Any) -> Iterator[FunctionType]:
    own = inspect.unwrap(code) if callable(code) else code
    values = [own, *vars(own).values()] if inspect.isclass(own) else [own]
    for namespace in namespaces(code):
        for value in namespace.values():
            if getattr(value, "__module__", None) == namespace.get("__name__"):
                values += [value, *vars(value).values()] if inspect.isclass(value) else [value]
    yield from dict.fromkeys(x for x in values if isinstance(x, FunctionType))


def _lifted(code: CodeType, strings: tuple[str, ...]) -> CodeType:
    constants = tuple(
        _lifted(x, strings)
        if isinstance(x, CodeType)
        else "float64"
        if isinstance(x, str) and x in strings
        else x
        for x in code.co_consts
    )
    same = all(x is y for x, y in zip(constants, code.co_consts, strict=True))
    return code if same else code.replace(co_consts=constants)
