"""Rebinds the names in the user's modules that are bound to sources of randomness.

A session of tests loads hundreds of modules, and code is run thousands of times: what a look
through a module found is remembered for as long as every name in it is bound as it was.
"""

import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from types import CellType, FunctionType, ModuleType
from typing import Any

from simverify.symbolic.whose import namespaces, same_bindings

Replacement = Callable[[Any], Any]


def replace_names(code: Any, replacement: Replacement, stack: ExitStack, like: Hashable) -> None:
    """Rebind, until ``stack`` closes, every name for which ``replacement`` gives a value.

    Looked at: globals, classes, defaults and closures of the modules that belong to
    ``code`` (its own, its package's, and whatever is loaded from outside the library
    folders), and the attributes of ``code`` itself if it is an object. ``like``: equal for
    replacements that give a value for the same objects.
    """
    spaces = namespaces(code)
    # Equal for all code of a session, wherever it stands in the order.
    key = (tuple(sorted(map(id, spaces))), like)
    together = _TOGETHER.pop(key, None)
    if together is None or not together.hold():
        together = _Together([_known(space, replacement, like) for space in spaces])
    while len(_TOGETHER) >= _MOST:
        del _TOGETHER[next(iter(_TOGETHER))]
    _TOGETHER[key] = together
    together.rebind(replacement, stack)
    look = _Look(replacement)
    look.inside(code, None)
    look.found.rebind(replacement, stack)


def _known(space: dict[str, Any], replacement: Replacement, like: Hashable) -> "_Bindings":
    """Return what a look through one module finds, or found."""
    key = (id(space), like)
    known = _KNOWN.get(key)
    if known is None or not known.hold():
        look = _Look(replacement)
        look.at_module(space)
        known = _KNOWN[key] = look.found
    return known


class _Names:
    """Names of a module or of an object."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def read(self) -> Mapping[Any, Any]:
        return self.names

    def put(self, name: str, value: Any) -> None:
        self.names[name] = value


class _Class:
    """Names of a class."""

    def __init__(self, own: type) -> None:
        self.own = own

    def read(self) -> Mapping[str, Any]:
        return vars(self.own)

    def put(self, name: str, value: Any) -> None:
        setattr(self.own, name, value)


class _Defaults:
    """Defaults of a function's positional arguments."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def read(self) -> dict[int, Any]:
        return dict(enumerate(self.function.__defaults__ or ()))

    def put(self, place: int, value: Any) -> None:
        values = list(self.function.__defaults__ or ())
        values[place] = value
        self.function.__defaults__ = tuple(values)


class _Cell:
    """A variable that a function closes over; it may have no value yet."""

    def __init__(self, cell: CellType) -> None:
        self.cell = cell

    def read(self) -> dict[str, Any]:
        try:
            return {"": self.cell.cell_contents}
        except ValueError:
            return {}

    def put(self, _: str, value: Any) -> None:
        self.cell.cell_contents = value


_Holder = _Names | _Class | _Defaults | _Cell


@dataclass
class _Bindings:
    """Every binding that a look saw, and those of them that have to change."""

    all: list[tuple[_Holder, Mapping[Any, Any]]] = field(default_factory=list)
    places: list[tuple[_Holder, Any]] = field(default_factory=list)

    def hold(self) -> bool:
        """Whether every name is still bound to the very same object."""
        return all(same_bindings(holder.read(), before) for holder, before in self.all)

    def rebind(self, replacement: Replacement, stack: ExitStack) -> None:
        """Put the new values in place until ``stack`` closes."""
        for holder, name in self.places:
            old = holder.read()[name]
            new = replacement(old)
            if new is not None:
                holder.put(name, new)
                stack.callback(holder.put, name, old)


class _Together(_Bindings):
    """The bindings of many modules, compared at once.

    They are asked for before every instance, and in a session of tests there are tens of thousands:
    as few as possible are compared by a loop in Python.
    """

    def __init__(self, parts: list[_Bindings]) -> None:
        every = [binding for part in parts for binding in part.all]
        super().__init__([], [place for part in parts for place in part.places])
        self._mappings: list[Mapping[Any, Any]] = []
        self._functions: list[FunctionType] = []
        self._cells: list[CellType] = []
        names: list[Mapping[Any, Any]] = []
        defaults: list[Mapping[int, Any]] = []
        self._contents: list[Any] = []
        for holder, before in every:
            if isinstance(holder, _Defaults):
                self._functions.append(holder.function)
                defaults.append(before)
            elif not isinstance(holder, _Cell):
                self._mappings.append(holder.read())  # the mapping itself: it changes with it
                names.append(before)
            elif before:
                self._cells.append(holder.cell)
                self._contents.append(before[""])
            else:
                self.all.append((holder, before))  # a variable without a value
        self._sizes = [*map(len, names), *map(len, defaults)]
        self._keys = list(chain.from_iterable(names))
        self._values = list(chain.from_iterable(map(_VALUES, names)))
        self._defaults = list(chain.from_iterable(map(_VALUES, defaults)))

    def hold(self) -> bool:
        """Whether every name is still bound to the very same object."""
        try:
            defaults = list(map(_DEFAULTS, self._functions))
            return (
                [*map(len, self._mappings), *map(len, defaults)] == self._sizes
                and _same(chain.from_iterable(self._mappings), self._keys)
                and _same(chain.from_iterable(map(_VALUES, self._mappings)), self._values)
                and _same(map(_CONTENTS, self._cells), self._contents)
                and _same(chain.from_iterable(defaults), self._defaults)
                and super().hold()
            )
        except (TypeError, ValueError):  # no defaults any more, no value any more
            return False


def _same(now: Iterable[Any], before: list[Any]) -> bool:
    return all(map(operator.is_, now, before))


_VALUES = operator.methodcaller("values")
_DEFAULTS = operator.attrgetter("__defaults__")
_CONTENTS = operator.attrgetter("cell_contents")

_KNOWN: dict[tuple[int, Hashable], _Bindings] = {}
"""By module and kind of replacement. What is bound is kept alive, so no address is used again."""

_TOGETHER: dict[tuple[tuple[int, ...], Hashable], _Together] = {}
"""The same of all modules that belong to some code, the ones used last."""

_MOST = 8


class _Look:
    """A look through one module or one object."""

    def __init__(self, replacement: Replacement) -> None:
        self.found = _Bindings()
        self._replacement = replacement
        self._seen: dict[int, Any] = {}

    def at_module(self, namespace: dict[str, Any]) -> None:
        """Look at a module's names, and into what is its own."""
        for value in self._left(_Names(namespace)):
            self.inside(value, namespace.get("__name__"))

    def inside(self, value: Any, module: str | None) -> None:
        """Look into a value; if ``module`` is named, not into what another one defines."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.inside(part, None)
        elif inspect.ismethod(value):
            self.inside(value.__func__, None)
            self.inside(value.__self__, None)
        elif isinstance(value, FunctionType):
            if module is None or value.__module__ == module:
                self._function(value)
        elif inspect.isclass(value):
            if (module is None or value.__module__ == module) and value.__module__ != "builtins":
                for item in self._left(_Class(value)):
                    if isinstance(item, FunctionType):
                        self._function(item)
        elif module is not None or isinstance(value, ModuleType):
            return
        elif isinstance(getattr(value, "__dict__", None), dict):
            self._left(_Names(vars(value)))
            self.inside(type(value), None)

    def _function(self, function: FunctionType) -> None:
        if function.__defaults__:
            self._left(_Defaults(function))
        if function.__kwdefaults__:
            self._left(_Names(function.__kwdefaults__))
        for cell in function.__closure__ or ():
            for value in self._left(_Cell(cell)):
                self.inside(value, None)

    def _left(self, holder: _Holder) -> list[Any]:
        """Note what a holder binds and what has to change; return the values that stay."""
        items = dict(holder.read())
        self.found.all.append((holder, items))
        left = []
        for name, value in items.items():
            if self._replacement(value) is None:
                left.append(value)
            else:
                self.found.places.append((holder, name))
        return left
