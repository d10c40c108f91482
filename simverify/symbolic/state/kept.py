"""What code keeps from one call to the next: in its object, and around it.

An object that is built anew is read whole each time. What outlives it (globals that the code
names, closures, defaults, attributes of functions, classes and modules) is read once; after
that every thing in it that can be changed in place is only looked at, because it hardly ever
changes: if all of them hold what they held, so does the whole.
"""

import array
import collections
import dis
import functools
import inspect
import operator
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from simverify.symbolic.state.images import Names, Reader, Unreadable
from simverify.symbolic.state.put_back import put_back, slots_of
from simverify.symbolic.whose import is_library, is_ours, is_users, is_users_file, unwrapped

_CACHE = type(functools.lru_cache(len))

_MISSING = object()

NOTHING_NEW = (None, None)
"""The image of code that keeps what it kept at the start."""

_FEW = 64
"""Lists of more items are not searched for functions; their items are read all the same."""


_ENVIRONMENT = frozenset({"environ", "getenv", "putenv"})


class Kept:
    """Reads what ``code`` keeps; ``rng`` is the generator it is handed, which can be written on.

    ``reason``: why nothing can be compared; empty where it can.
    """

    def __init__(self, code: Any, rng: Any) -> None:
        self._roots = [rng, *_reached(code)]
        self._known: list[tuple[Any, Callable[[], Any], Any]] = []
        self.reason = ""
        self._own = unwrapped(code)
        try:
            self._outside = Reader(self._note, self._is_constant).image(self._roots)
        except Unreadable as error:
            self.reason = str(error)

    def image(self, instance: Any = None, *, known: bool = True) -> Hashable:
        """Return what is kept now; something equal to nothing where it cannot be read.

        ``instance``: the rule's object, where it is built for each generation. ``known``: false
        where more is kept, which is not the code's, as draws that will come again.
        """
        if self.reason or not known:
            return Unlike()
        try:
            own = None if instance is None else self._reader().image(instance)
            if all(_same(held, look()) for _, look, held in self._known):
                return own, None
            outside = self._reader().image(self._roots)
        except Unreadable:
            return Unlike()
        return own, None if outside == self._outside else outside

    def _reader(self) -> Reader:
        return Reader(None, self._is_constant)

    def _is_constant(self, function: types.FunctionType) -> bool:
        return not _is_theirs(function, self._own)

    def _note(self, x: Any) -> None:
        if (look := _look(x)) is not None:
            self._known.append((x, look, look()))

    def put_back(self) -> bool:
        """Let everything hold what it held at the start; false where that was not read whole.

        For code that keeps draws of paths that are over, which nothing can be done with.
        """
        if self.reason:
            return False
        for x, look, held in self._known:
            if not _same(held, look()):
                put_back(x, held)
        return True


class Unlike:
    """Equal to itself alone."""


def _look(x: Any) -> Callable[[], Any] | None:
    """Return what looks at what an object holds, one level deep; None if that cannot change."""
    kind = type(x)
    if kind is Names:
        return x.values  # type: ignore[no-any-return]
    if isinstance(x, dict):
        return lambda: [*dict.keys(x), *dict.values(x), getattr(x, "default_factory", None)]
    if isinstance(x, list | set | frozenset | collections.deque):
        return lambda: list(x)
    if isinstance(x, np.ndarray):
        if x.dtype.hasobject:
            return lambda: [*x.flat, *x.shape]
        return lambda: (x.shape, x.strides, x.tobytes())
    if kind is types.FunctionType:
        return partial(_held_by, x, ("__code__", "__defaults__", "__kwdefaults__"))
    if kind is types.CellType:
        return partial(_held_in, x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return lambda: Reader().image(x)
    if kind is array.array:
        return x.tobytes  # type: ignore[no-any-return]
    if isinstance(x, BaseException):
        return lambda: list(x.args)
    if isinstance(x, _CACHE):  # by its type: an object may answer any name, or raise at one
        return lambda: x.cache_info()
    names = slots_of(x)
    return partial(_held_by, x, names) if names else None


def _held_by(x: Any, names: tuple[str, ...]) -> list[Any]:
    return [getattr(x, name, None) for name in names]


def _held_in(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _same(before: Any, now: Any) -> bool:
    if not isinstance(before, list):
        return bool(before == now)
    return len(before) == len(now) and all(map(operator.is_, before, now))


def _reached(code: Any) -> list[Any]:
    """Return what the code's functions may read or write by name, and the code itself.

    Names are taken from the bytecode: globals, attributes of the user's modules and classes, and
    those that the code itself hangs on a library's module; and the environment of the process.
    What is reached in other ways is not seen: ``globals()``, files.
    """
    own = unwrapped(code)
    functions: dict[int, types.FunctionType] = {}
    spaces: dict[int, Mapping[str, Any]] = {}
    classes: dict[int, type] = {}
    libraries: dict[int, types.ModuleType] = {}
    used: set[str] = set()
    waiting, seen = [own, code], set[int]()
    while waiting:
        x = waiting.pop()
        if id(x) not in seen:
            seen.add(id(x))
            if isinstance(x, types.FunctionType):
                if _is_theirs(x, own):
                    functions[id(x)] = x
                    used.update(_names(x.__code__))
                    spaces[id(x.__globals__)] = x.__globals__
                    waiting += [c.cell_contents for c in x.__closure__ or () if _is_full(c)]
            elif inspect.isclass(x):
                if not is_library(x.__module__) and not is_ours(x.__module__):
                    classes[id(x)] = x
                    waiting += [*vars(x).values(), *x.__mro__[1:]]
            elif isinstance(x, types.ModuleType):
                if x is sys.modules.get(x.__name__) and _is_users_module(x, own):
                    spaces[id(vars(x))] = vars(x)
                else:
                    libraries[id(x)] = x
            else:
                waiting += _inside(x)
        if not waiting:
            waiting = [
                value
                for space in list(spaces.values())
                for name in used & space.keys()
                if id(value := space[name]) not in seen
            ]
            waiting += [m for name in used if (m := sys.modules.get(name)) and id(m) not in seen]
    hung = {name for x in functions.values() for name in _stored(x.__code__)}
    return [
        code,
        *([os.environ._data] if used & _ENVIRONMENT else ()),  # type: ignore[attr-defined]
        *(Names(vars(x), filter(partial(_is_hung, x), hung)) for x in libraries.values()),
        *(Names(space, used) for space in spaces.values()),
        *(Names(vars(x), {*vars(x), *used} - _OF_ALL, x) for x in classes.values()),
        *functions.values(),
    ]


_OF_ALL = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "_abc_impl"})


def _inside(x: Any) -> list[Any]:
    """Return what an object that is neither function, class nor module leads on to."""
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, staticmethod | classmethod):
        return [x.__func__]
    if isinstance(x, property):
        return [x.fget, x.fset]
    # Without asking the object, which may answer any name, or raise at it.
    if inspect.getattr_static(x, "__wrapped__", _MISSING) is not _MISSING:
        return [x.__wrapped__]
    kind = type(x)
    if isinstance(getattr(x, "__dict__", None), dict) and not is_library(kind.__module__):
        return [kind, *vars(x).values()]
    return list(x) if isinstance(x, list | tuple) and len(x) <= _FEW else []


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _stored(code: types.CodeType) -> Iterator[str]:
    """Yield the names of attributes that code sets."""
    for step in dis.get_instructions(code):
        if step.opname == "STORE_ATTR":
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _stored(constant)


def _is_hung(module: types.ModuleType, name: str) -> bool:
    """Whether a name may be the code's own on a library's module, which has others."""
    value = vars(module).get(name)
    return not callable(value) and not isinstance(value, types.ModuleType)


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not _MISSING
    except ValueError:
        return False


def _is_theirs(function: types.FunctionType, own: Any) -> bool:
    return is_users(function, own) and not is_ours(function.__module__ or "")


def _is_users_module(module: types.ModuleType, own: Any) -> bool:
    name = module.__name__
    if is_library(name) or is_ours(name):
        return False
    same = name.partition(".")[0] == (getattr(own, "__module__", None) or "").partition(".")[0]
    return same or is_users_file(getattr(module, "__file__", None) or "<none>")
