"""The code under audit: what a rule can reach by name, in its own file and beside it.

Functions count that the rule names, or that those name in turn: globals, closures, defaults,
attributes of a module beside it, methods of its class by their names. What lies outside the folder
of the rule's file is a library's, and is never counted; neither is what no name leads to. An
adapter leads to the functions of an engine, and is not counted itself; the walk begins at those of
``__counted__`` where it says them, as names lead from a library's front door to all of it.
"""

import functools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from simverify.symbolic.whose import is_adapters, on_trial, runs_kernels

_MOST_ITEMS = 64
"""Numbers are read from containers of so many items at most: larger ones are tables, no limits."""

_MOST_FUNCTIONS = 500

_NUMBERS = (int, float, np.integer, np.floating)

_SELF_CALLED = frozenset(
    {"__init__", "__new__", "__post_init__", "__call__", "step", "tree", "draft", "reset"}
)
"""Methods that run without being named by the code itself."""


@dataclass
class Reach:
    """``codes``: of every function, nested ones too. ``numbers``: all that they hold or read.

    ``named``: those that a name or an attribute is bound to, whoever has it.
    """

    codes: list[CodeType] = field(default_factory=list)
    numbers: set[int | float] = field(default_factory=set)
    named: dict[str, set[int | float]] = field(default_factory=lambda: defaultdict(set))


def reach_of(rule: Callable[..., Any]) -> Reach:
    """Return the code that ``rule`` reaches; empty where it is not written in Python."""
    walk = _Walk()
    walk.see(rule)
    walk.follow_names()
    return walk.found


class _Walk:
    def __init__(self) -> None:
        self.found = Reach()
        self._home = ""
        self._names: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._spaces: list[type | ModuleType] = []

    def follow_names(self) -> None:
        """Look up the names met so far in the classes and modules met so far, to the end."""
        before = (-1, -1)
        while before != (len(self._seen), len(self._names)):
            before = (len(self._seen), len(self._names))
            for space in list(self._spaces):
                for name, value in list(vars(space).items()):
                    if name in self._names or (isinstance(space, type) and name in _SELF_CALLED):
                        self.see(value)
                        self._bind([(name, value)])

    def see(self, value: Any) -> None:
        """Take in a value that a name is bound to."""
        if isinstance(value, bool | np.bool_):
            return
        if isinstance(value, _NUMBERS):
            self.found.numbers.add(_plain(value))
            return
        if id(value) in self._seen or len(self.found.codes) > _MOST_FUNCTIONS:
            return
        self._seen[id(value)] = value
        for part in self._parts(value):
            self.see(part)

    def _bind(self, bound: Iterable[tuple[str, Any]]) -> None:
        for name, value in bound:
            if isinstance(value, _NUMBERS) and not isinstance(value, bool):
                self.found.named[name].add(_plain(value))

    def _parts(self, value: Any) -> Iterator[Any]:
        if isinstance(value, functools.partial):
            yield from (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, MethodType):
            yield from (value.__func__, value.__self__)
        elif isinstance(value, staticmethod | classmethod):
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, functools.cached_property):
            yield value.func
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            if self._is_own(_file_of(value)):
                self._spaces.append(value)
                yield from value.__bases__
        elif isinstance(value, ModuleType):
            if self._is_own(getattr(value, "__file__", None)):
                self._spaces.append(value)
        elif isinstance(value, np.ndarray):
            if value.size <= _MOST_ITEMS and value.dtype.kind in "iuf":
                yield from value.ravel().tolist()
        elif isinstance(value, tuple | list | set | frozenset | dict):
            if len(value) <= _MOST_ITEMS:
                yield from value.values() if isinstance(value, dict) else value
        elif self._is_own(_file_of(type(value))):
            yield type(value)
            held = getattr(value, "__dict__", {})
            self._bind(held.items())
            yield from held.values()
        elif callable(wrapped := getattr(value, "__wrapped__", None)):
            yield wrapped  # functools.lru_cache and its like

    def _function(self, function: FunctionType) -> Iterator[Any]:
        if (counted := getattr(function, "__counted__", None)) is not None:
            yield from counted
            return
        # A decorator's own code runs too, if it is the user's.
        yield getattr(function, "__wrapped__", None)
        yield from getattr(function, "__parts__", ())
        file = function.__code__.co_filename
        if self._home and file == "<string>" != self._home:
            return  # written by no one: a dataclass makes its own methods
        if not is_adapters(file):
            self._home = self._home or file
        if not self._is_own(file):
            return
        bound = _bound(function)
        self._bind(bound)
        yield from (value for _, value in bound)
        yield from self._code(function.__code__, function.__globals__)

    def _code(self, code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
        if not is_adapters(code.co_filename):
            self.found.codes.append(code)
        self._names.update(code.co_names)
        known = [(name, names[name]) for name in code.co_names if name in names]
        self._bind(known)
        yield from (value for _, value in known)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code(constant, names)
            else:
                yield constant

    def _is_own(self, file: str | None) -> bool:
        if not file or not self._home:
            return bool(file)
        if runs_kernels(file):
            return False
        if file == self._home or on_trial(file) or is_adapters(file):
            return True
        folder = os.path.dirname(os.path.abspath(self._home)) + os.sep
        if not os.path.abspath(file).startswith(folder):
            return False
        rest = os.path.abspath(file)[len(folder) :]
        return "site-packages" not in rest and f"lib{os.sep}python" not in rest


def _bound(function: FunctionType) -> list[tuple[str, Any]]:
    """Return the names of a function's closure, and its arguments that have defaults."""
    code = function.__code__
    found = []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            continue  # a variable that has no value yet
    defaults = function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    found += zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    return [*found, *(function.__kwdefaults__ or {}).items()]


def _plain(number: Any) -> int | float:
    plain: int | float = number.item() if isinstance(number, np.generic) else number
    return plain


def _file_of(own: type) -> str | None:
    module = sys.modules.get(own.__module__)
    return getattr(module, "__file__", None)
