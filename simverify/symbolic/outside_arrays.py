"""Arrays of floats that code made before it was followed: replaced by arrays that take draws.

An array of doubles cannot hold a draw, and numpy asks no one when it is written to. So where code
was stopped by that, each array that it keeps is replaced, wherever it keeps it: under a name, in a
class, an object, a container, a closure, a default, a cache. Arrays that share their memory
share it here too. Code that is repeated on numbers gets its own arrays: what the two do
differently, because an array is kept where nobody looks, is seen there.
"""

__simverify_role__ = "stand-in"


import array
import collections
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from simverify.symbolic.arrays import DrawArray, array_of_objects
from simverify.symbolic.builtins_patched import ArrayTwin, array_for_draws
from simverify.symbolic.hidden_state import BoundNames, attributes_of, reachable_state, slots_of
from simverify.symbolic.provenance import is_library, is_machinery

_MAX_VISITED = 20_000
"""Of objects that hold more, some arrays are left as they are, and code that needs them is
refused."""

_MAX_ELEMENTS = 2**17
"""Arrays of more elements are left, too: they are weights, and no place for draws."""

_VALUE_TYPES = (int, float, complex, bool, str, bytes, type(None), np.ndarray)
_CLOSED_TYPES: tuple[type, ...] = (types.ModuleType, *weakref.ProxyTypes)
_LIBRARIES = ("jax", "jaxlib", "numba", "numpy", "scipy")
_LRU_CACHE_TYPE = type(functools.lru_cache(len))


class _Place(NamedTuple):
    """Where something is kept, what that was, and what stands for it."""

    get: Callable[[], Any]
    put: Callable[[Any], None]
    old: Any
    new: Any

    def swap(self, before: Any, after: Any) -> None:
        """Put ``after`` there, if ``before`` is there still: the code may have put another."""
        try:
            found = self.get()
        except (LookupError, AttributeError, ValueError):
            return
        if found is before:
            self.put(after)


class OutsideArrays:
    """The arrays that ``code`` keeps, and what stands for each."""

    def __init__(self, code: Any) -> None:
        self._twins: dict[int, tuple[Any, Any]] = {}
        self._memory: dict[int, tuple[Any, Any]] = {}
        self._caches: list[tuple[Any, int]] = []
        self._places = list(self._find(reachable_state(code)))

    def put_in(self) -> None:
        """Let the code find what stands for its arrays."""
        for place in self._places:
            place.swap(place.old, place.new)

    def put_back(self) -> None:
        """Let it find its own ones."""
        for place in self._places:
            place.swap(place.new, place.old)

    def close(self) -> None:
        """Put all back; caches forget what was made on the way."""
        self.put_back()
        for cache, misses in self._caches:
            if cache.cache_info().misses != misses:
                cache.cache_clear()

    def _find(self, roots: list[Any]) -> Iterator[_Place]:
        waiting, seen = list(roots), dict[int, Any]()
        while waiting and len(seen) < _MAX_VISITED:
            x = waiting.pop()
            if id(x) in seen or type(x) in _VALUE_TYPES:
                continue
            seen[id(x)] = x
            for get, put in _places_in(x):
                try:
                    value = get()
                except Exception:  # a descriptor of the user's may raise anything
                    continue
                twin = None if put is None else self._twin(value)
                if put is not None and twin is not None:
                    yield _Place(get, put, value, twin)
                waiting.append(value)

    def _twin(self, x: Any) -> Any:
        """Return what stands for a value, always the same; None for one that stays."""
        if id(x) in self._twins:
            return self._twins[id(x)][1]
        twin: Any = None
        if type(x) is np.ndarray:
            twin = self._array(x)
        elif type(x) is array.array and x.typecode in "fd":
            twin = ArrayTwin(x.typecode, x)
        elif type(x) is _LRU_CACHE_TYPE:
            twin = self._cached(x)
        elif issubclass(type(x), tuple):
            twins = [self._twin(y) for y in x]
            if any(y is not None for y in twins):
                parts = [old if new is None else new for old, new in zip(x, twins, strict=True)]
                twin = tuple.__new__(type(x), parts)
        if twin is not None:
            self._twins[id(x)] = x, twin
        return twin

    def _array(self, x: Any) -> Any:
        root = x
        while isinstance(root.base, np.ndarray):
            root = root.base
        if x.dtype.names and x.base is None:
            structured = array_for_draws(x)
            return None if structured is x else structured
        if x.dtype.kind != "f" or root.dtype != x.dtype or root.base is not None:
            return None
        if root.size > _MAX_ELEMENTS:
            return None
        if id(root) not in self._memory:
            # In the order in which they lie.
            self._memory[id(root)] = root, array_of_objects(list(root.ravel(order="K")))
        objects = self._memory[id(root)][1]
        first = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        step = x.dtype.itemsize
        if first % step or any(stride % step for stride in x.strides):
            return None
        strides = tuple(stride // step * objects.itemsize for stride in x.strides)
        place = objects[first // step :]
        twin: Any = np.lib.stride_tricks.as_strided(
            place, x.shape, strides, writeable=x.flags.writeable
        ).view(DrawArray)
        twin._real = x.dtype
        return twin

    def _cached(self, cache: Any) -> Any:
        self._caches.append((cache, cache.cache_info().misses))

        @functools.wraps(cache)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = cache(*args, **kwargs)
            twin = self._twin(result)
            return result if twin is None else twin

        for name in ("cache_info", "cache_clear", "cache_parameters"):
            setattr(call, name, getattr(cache, name))
        return call


def _item(x: Any, key: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    kind: Any = dict if issubclass(type(x), dict) else type(x)
    return lambda: kind.__getitem__(x, key), lambda value: kind.__setitem__(x, key, value)


def _attribute(x: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(x, name), lambda value: object.__setattr__(x, name, value)


def _class_attribute(owner: type, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: vars(owner)[name], lambda value: setattr(owner, name, value)


def _fixed(x: Any) -> tuple[Callable[[], Any], None]:
    return lambda: x, None


def _places_in(x: Any) -> Iterator[tuple[Callable[[], Any], Callable[[Any], None] | None]]:
    """Yield what reads each place inside an object, and what writes it, if anything can."""
    kind = type(x)
    if kind is BoundNames:
        for name in x.names:
            if x.owner is not None:
                yield _class_attribute(x.owner, name)
            elif isinstance(x.space, dict):
                yield _item(x.space, name)
    elif issubclass(kind, dict):
        yield from (_item(x, key) for key in list(dict.keys(x)))
    elif issubclass(kind, list | collections.deque):
        yield from (_item(x, i) for i in range(len(x)))
    elif issubclass(kind, tuple | set | frozenset):
        yield from map(_fixed, x)
    elif kind is types.FunctionType:
        yield _attribute(x, "__defaults__")
        yield from map(_fixed, (x.__kwdefaults__, *(x.__closure__ or ()), x.__dict__))
    elif kind is types.CellType:
        yield _attribute(x, "cell_contents")
    elif issubclass(kind, functools.partial):
        yield lambda: x.args, lambda args: x.__setstate__((x.func, args, x.keywords, vars(x)))
        yield from map(_fixed, (x.func, x.keywords))
    elif kind is types.MethodType:
        yield from map(_fixed, (x.__func__, x.__self__))
    elif issubclass(kind, staticmethod | classmethod):
        yield _fixed(x.__func__)
    elif issubclass(kind, type):
        if not (is_library(x.__module__) or is_machinery(x.__module__)):
            yield from (_class_attribute(x, name) for name in vars(x) if name[:2] != "__")
            yield from map(_fixed, x.__mro__[1:])
    elif not issubclass(kind, _CLOSED_TYPES) and not _is_of_library(kind):
        # By their types, as an object may answer any name, or raise at one.
        yield from (_attribute(x, name) for name in slots_of(x) if name != "__dict__")
        yield from map(_fixed, (attributes_of(x), kind))


def _is_of_library(kind: type) -> bool:
    home = kind.__module__.partition(".")[0]
    return is_machinery(kind.__module__) or home in _LIBRARIES
