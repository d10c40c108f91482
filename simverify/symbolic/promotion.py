"""Promotion: code computes in float64 although it asks for less, so that its rounding vanishes.

A fault stays. The coarser types of numpy and torch stand for float64 under every name and in
every container that the code holds them in. What is asked for by a string, or by a type that was
found elsewhere, is promoted in the call: ``astype``, numpy's functions that take a dtype, every
call of torch. Arrays that the code made before it is called are replaced by doubles.
"""

__simverify_role__ = "stand-in"


import ctypes
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import (
    CellType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Literal

import numpy as np

from simverify.symbolic.builtins_patched import TypeTwinMeta
from simverify.symbolic.provenance import (
    belongs_to_the_audited,
    names,
    unwrap,
    user_namespaces,
)

Float64Promotion = Literal["half", "single"]
"""Which types are lifted to float64: the 16-bit ones, or float32 as well."""

PROMOTED_TYPES: dict[Float64Promotion, tuple[str, ...]] = {
    "half": ("float16", "half", "bfloat16"),
    "single": ("float16", "half", "bfloat16", "float32", "single", "float"),
}
"""Their names in numpy and torch, and those of the methods of a tensor that cast to them."""

TENSOR_TYPES: dict[Float64Promotion, tuple[str, ...]] = {
    "half": ("HalfTensor", "BFloat16Tensor"),
    "single": ("HalfTensor", "BFloat16Tensor", "FloatTensor"),
}
"""torch's older names of them."""

_METHODS = names("astype sum prod cumsum cumprod mean std var trace")
"""Of arrays and numbers of numpy's: those that take a dtype."""

_FUNCTIONS = names(
    "arange array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray astype "
    "average can_cast concatenate copyto cumprod cumsum cumulative_prod cumulative_sum einsum "
    "empty empty_like eye fromfunction frombuffer fromiter fromstring full full_like geomspace "
    "hstack identity linspace logspace mean nancumprod nancumsum nanmean nanprod nanstd nansum "
    "nanvar ones ones_like prod promote_types require result_type stack std sum trace tri "
    "vectorize vstack var zeros zeros_like"
)
"""The same of numpy's functions, besides its ufuncs."""

_FORMATS: dict[Float64Promotion, str] = {"half": "e", "single": "ef"}
"""Their letters in the formats of ``struct``."""

_MAX_HELD = 100_000
"""Objects that are looked at: what the code holds may hold the world."""

Put = Callable[[Any], None]


def promoted_names(module: ModuleType, double: Any, lift: Float64Promotion) -> dict[str, Any]:
    """Return what stands in for the types of numpy or torch: its float64, for those lifted."""
    kinds = type(double)
    return {
        name: double
        for name in PROMOTED_TYPES[lift]
        if isinstance(getattr(module, name, None), kinds)
    }


class NumpyPromotion:
    """numpy as lifted code has it. ``double``: what stands for float64."""

    def __init__(self, lift: Float64Promotion, double: Any) -> None:
        self.lift, self.double = lift, double

    def names(self) -> dict[str, Any]:
        """Return what stands in for numpy's functions that are given a dtype, and its tables."""
        functions = {name: getattr(np, name) for name in _FUNCTIONS if hasattr(np, name)}
        functions |= {name: x for name, x in vars(np).items() if isinstance(x, np.ufunc)}
        table = {key: self.spec(x) or x for key, x in np.sctypeDict.items()}
        promoting = {name: self.function(x) for name, x in functions.items()}
        return {**promoting, "dtype": self._dtype_twin(), "sctypeDict": table}

    def spec(self, x: Any) -> Any:
        """Return what stands for a value that asks for a type, however it is written; or None."""
        if isinstance(x, str):
            return "float64" if self._is_lifted(x) else None
        if isinstance(x, np.dtype):
            return np.dtype(np.float64) if self._is_lifted(x) else None
        if isinstance(x, type) and issubclass(x, np.generic):
            return self.double if x not in (np.generic, np.float64) and self._is_lifted(x) else None
        return None

    def _is_lifted(self, x: Any) -> bool:
        try:
            return np.dtype(x).name in PROMOTED_TYPES[self.lift]
        except (TypeError, ValueError, SyntaxError):
            return False

    def held(self, x: Any) -> Any:
        """Return what stands for a value that the code holds: no string, which may be a key."""
        if isinstance(x, str):
            return None
        if isinstance(x, np.ndarray):
            # Of a view, the array beside it would not change with it.
            coarse = type(x) is np.ndarray and x.base is None and self._is_lifted(x.dtype)
            return x.astype(np.float64) if coarse else None
        if isinstance(x, np.floating):
            return np.float64(x) if self._is_lifted(x.dtype) else None
        return self.spec(x)

    def function(self, original: Any) -> Any:
        """Return a function with the types among its arguments lifted."""
        if isinstance(original, type) and original is not np.vectorize:
            return original
        return _PromotingFunction(original, self)

    def arguments(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return arguments with the types among them lifted, in a list of them as well."""

        def lifted(x: Any) -> Any:
            if type(x) in (list, tuple):
                return type(x)(lifted(y) for y in x) if any(map(self._asks, x)) else x
            return x if (new := self.spec(x)) is None else new

        return tuple(map(lifted, args)), {key: lifted(x) for key, x in kwargs.items()}

    def _asks(self, x: Any) -> bool:
        return isinstance(x, type | np.dtype) and self.spec(x) is not None

    def _dtype_twin(self) -> Any:
        promotion = self

        class DtypeTwin(metaclass=TypeTwinMeta):
            makes = np.dtype

            def __new__(cls, *args: Any, **kwargs: Any) -> Any:
                args, kwargs = promotion.arguments(args, kwargs)
                made = np.dtype(*(x.makes if hasattr(x, "makes") else x for x in args), **kwargs)
                return promotion.spec(made) or made

        return DtypeTwin

    def patch_methods(self, stack: ExitStack) -> None:
        """Lift what the code asks the methods of arrays and numbers for until ``stack`` closes."""
        for owner in (np.ndarray, np.generic):
            # numpy's types are closed to assignment, and the types asked for come from anywhere.
            methods = gc.get_referents(owner.__dict__)[0]
            before = {name: methods[name] for name in _METHODS}
            stack.callback(_change_type, owner, methods, before)
            lifted = {name: self._method(method) for name, method in before.items()}
            _change_type(owner, methods, lifted)

    def _method(self, original: Any) -> Any:
        @functools.wraps(original)
        def method(x: Any, *args: Any, **kwargs: Any) -> Any:
            if belongs_to_the_audited(sys._getframe(1).f_globals.get("__name__", "")):
                args, kwargs = self.arguments(args, kwargs)
                args = tuple(y.makes if hasattr(y, "makes") else y for y in args)
            return original(x, *args, **kwargs)

        return method


def _change_type(owner: type, methods: dict[str, Any], names: dict[str, Any]) -> None:
    methods.update(names)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


class _PromotingFunction:
    """A function or ufunc of numpy's, with the types that it is given lifted."""

    def __init__(self, original: Any, promotion: NumpyPromotion) -> None:
        functools.update_wrapper(self, original)
        self._original, self._promotion = original, promotion

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._promotion.arguments(args, kwargs)
        return self._original(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._original, name)
        return _PromotingFunction(value, self._promotion) if callable(value) else value


def promoted_struct(module: ModuleType, lift: Float64Promotion) -> dict[str, Any]:
    """Return what stands in for the functions of ``struct``: floats are packed as doubles."""
    double = str.maketrans(dict.fromkeys(_FORMATS[lift], "d"))

    def lifted(original: Any) -> Any:
        def function(form: Any, *args: Any, **kwargs: Any) -> Any:
            text = form.decode() if isinstance(form, bytes) else form
            return original(text.translate(double), *args, **kwargs)

        return function

    packing = names("pack unpack pack_into unpack_from iter_unpack calcsize")
    return {name: lifted(getattr(module, name)) for name in packing}


# What the code holds: types in tables, in attributes and defaults, and arrays of few bits.


@dataclass
class _Holders:
    """The ``owners`` that a search of ``code`` found; ``relied``: whether one stood in for another.

    It keeps the code, whose identity names it.
    """

    code: Any
    owners: list[Any]
    relied: bool = False


_HOLDERS: ContextVar[dict[Any, _Holders] | None] = ContextVar("holders", default=None)
"""What code holds types and arrays in that were lifted before, by code and kind of lift."""


@contextmanager
def remembered_holders() -> Iterator[None]:
    """Search each code once inside: what it holds its types in hardly changes in an audit."""
    token = _HOLDERS.set({})
    try:
        yield
    finally:
        _HOLDERS.reset(token)


def forget_holders() -> bool:
    """Search anew from now on; returns whether an earlier search was relied on."""
    remembered = _HOLDERS.get()
    relied = remembered is not None and any(own.relied for own in remembered.values())
    if remembered is not None:
        remembered.clear()
    return relied


def promote_held(
    code: Any, lift: Float64Promotion, held: Callable[[Any], Any], stack: ExitStack
) -> None:
    """Put ``held(x)`` in place of each value x that the code holds until ``stack`` closes.

    Looked at: globals, classes, defaults and closures of its modules, attributes of its objects,
    and containers in all of these. ``held`` gives None for what stays.
    """
    remembered, found = _HOLDERS.get(), list[Any]()
    known = None if remembered is None else remembered.get((id(code), lift))
    if known is not None:
        known.relied = True
    spaces = user_namespaces(code) if known is None else []
    # What imports a module is not the code's: that of pytest leads to every test of the session.
    seen = {id(x): x for space in spaces for x in map(space.get, _IMPORT_NAMES)}
    new: dict[int, Any] = {}
    waiting = deque[Any]([*spaces, code, unwrap(code)] if known is None else known.owners)
    while waiting and len(seen) < _MAX_HELD:
        owner = waiting.popleft()
        if id(owner) in seen:
            continue
        seen[id(owner)] = owner
        holds = False
        for value, put in _held_by(owner):
            if type(value) in _PLAIN_TYPES:
                continue
            if id(value) not in new:
                new[id(value)] = value, _promoted(value, held)
            double = new[id(value)][1]
            if double is None:
                if known is None:
                    waiting.append(value)
                continue
            holds = True
            with suppress(AttributeError, TypeError):
                put(double)
                stack.callback(put, value)
        if holds:
            found.append(owner)
    if remembered is not None and known is None:
        remembered[id(code), lift] = _Holders(code, found)


_IMPORT_NAMES = ("__builtins__", "__loader__", "__spec__")
"""Globals of a module that Python sets."""

_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of values that hold nothing and are lifted nowhere."""


def _promoted(value: Any, held: Callable[[Any], Any]) -> Any:
    """Return what stands for a value, or for a tuple with some that have to change; or None."""
    if isinstance(value, tuple):
        parts = [_promoted(x, held) for x in value]
        if all(x is None for x in parts):
            return None
        both = (x if new is None else new for x, new in zip(value, parts, strict=True))
        return tuple.__new__(type(value), both)
    if type(value) is functools.partial:
        given = tuple(value.keywords.values())
        args, named = _promoted(value.args, held), _promoted(given, held)
        if args is None and named is None:
            return None
        keywords = dict(zip(value.keywords, named or given, strict=True))
        return functools.partial(value.func, *(args or value.args), **keywords)
    return held(value)


def _held_by(owner: Any) -> Iterator[tuple[Any, Put]]:
    """Yield each value that an object of the code's holds, and what puts another in its place."""
    if isinstance(owner, MappingProxyType):
        owner = gc.get_referents(owner)[0]
    if isinstance(owner, dict):
        for key, value in list(owner.items()):
            yield value, functools.partial(owner.__setitem__, key)
    elif isinstance(owner, list | deque):
        for place, value in enumerate(list(owner)):
            yield value, functools.partial(owner.__setitem__, place)
    elif isinstance(owner, tuple | set | frozenset):
        for value in owner:
            yield value, _refuse_put
    elif isinstance(owner, functools.partial):
        for value in (owner.func, owner.args, owner.keywords):
            yield value, _refuse_put
    elif isinstance(owner, FunctionType):
        if belongs_to_the_audited(owner.__module__ or ""):
            yield from _held_by_function(owner)
    elif isinstance(owner, MethodType):
        for value in (owner.__func__, owner.__self__):
            yield value, _refuse_put
    elif isinstance(owner, CellType):
        with suppress(ValueError):
            yield owner.cell_contents, functools.partial(setattr, owner, "cell_contents")
    elif isinstance(owner, type):
        if belongs_to_the_audited(owner.__module__):
            for name, value in list(vars(owner).items()):
                yield getattr(value, "__func__", value), functools.partial(setattr, owner, name)
    elif not isinstance(owner, ModuleType):
        yield from _held_by_object(owner)


def _refuse_put(value: Any) -> None:
    raise TypeError("nothing is put into it")


def _held_by_function(function: FunctionType) -> Iterator[tuple[Any, Put]]:
    for cell in function.__closure__ or ():
        yield cell, _refuse_put
    yield function.__defaults__, functools.partial(setattr, function, "__defaults__")
    yield function.__kwdefaults__, functools.partial(setattr, function, "__kwdefaults__")
    yield getattr(function, "__wrapped__", None), _refuse_put


def _held_by_object(owner: Any) -> Iterator[tuple[Any, Put]]:
    kind = type(owner)
    if not (belongs_to_the_audited(kind.__module__) or isinstance(owner, SimpleNamespace)):
        return
    yield kind, _refuse_put
    attributes = getattr(owner, "__dict__", None)
    if isinstance(attributes, dict):
        yield attributes, _refuse_put
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError):
                put = functools.partial(object.__setattr__, owner, name)
                yield object.__getattribute__(owner, name), put
