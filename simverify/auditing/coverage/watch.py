"""The code under audit, and which of its instructions run.

The code is what a rule can reach by name, in its own file and beside it. Functions count that the
rule names, or that those name in turn: globals, closures, defaults, attributes of a module beside
it, methods of its class by their names. What lies outside the folder of the rule's file is a
library's, and is never counted; neither is what no name leads to. An adapter leads to the functions
of an engine, and is not counted itself.

What runs is seen by tracing some of its calls. A trace function slows every line of Python down,
the audit's own included, so not all calls are watched: the first ones of each instance, then one
in ``STRIDE``; and none once all lines and branches were seen. What an unwatched call alone
reached counts as not reached.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from simverify.auditing.coverage.places import Instructions
from simverify.symbolic.whose import is_adapters, on_trial, runs_kernels

_MOST_ITEMS = 64
"""Numbers are read from containers of so many items at most: larger ones are tables, no limits."""

_MOST_FUNCTIONS = 500

_SELF_CALLED = frozenset(
    {"__init__", "__new__", "__post_init__", "__call__", "step", "tree", "draft", "reset"}
)
"""Methods that run without being named by the code itself."""


@dataclass
class Reach:
    """``codes``: of every function, nested ones too. ``numbers``: all that they hold or read."""

    codes: list[CodeType] = field(default_factory=list)
    numbers: set[int | float] = field(default_factory=set)


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

    def see(self, value: Any) -> None:
        """Take in a value that a name is bound to."""
        if isinstance(value, bool | np.bool_):
            return
        if isinstance(value, int | float | np.integer | np.floating):
            self.found.numbers.add(value.item() if isinstance(value, np.generic) else value)
            return
        if id(value) in self._seen or len(self.found.codes) > _MOST_FUNCTIONS:
            return
        self._seen[id(value)] = value
        for part in self._parts(value):
            self.see(part)

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
            yield from getattr(value, "__dict__", {}).values()
        elif callable(wrapped := getattr(value, "__wrapped__", None)):
            yield wrapped  # functools.lru_cache and its like

    def _function(self, function: FunctionType) -> Iterator[Any]:
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
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:
                continue  # a variable that has no value yet
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        yield from self._code(function.__code__, function.__globals__)

    def _code(self, code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
        if not is_adapters(code.co_filename):
            self.found.codes.append(code)
        self._names.update(code.co_names)
        yield from (names[name] for name in code.co_names if name in names)
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


def _file_of(own: type) -> str | None:
    module = sys.modules.get(own.__module__)
    return getattr(module, "__file__", None)


P = ParamSpec("P")
T = TypeVar("T")

FIRST = 12
"""Calls of an instance that are watched, one after the other: half as many where those of the
instance before showed nothing new, and ``LEAST`` at least."""

LEAST = 2

STRIDE = 31
"""Then one call in so many: prime, so that it keeps step with no pattern of paths."""


class Watch:
    """What ran of some functions. ``always``: every call is watched.

    ``prefix``: the longest that a step was called on; ``row``: the most calls since it was built,
    while ``counts`` was true.
    """

    def __init__(self, codes: list[CodeType], *, always: bool = False) -> None:
        self.instructions = {code: Instructions.of(code) for code in codes}
        self.calls = self.watched = 0
        self._open = dict(self.instructions)
        self._always = always
        self._closely = self._next = FIRST
        self._known = 0
        self.prefix = self.row = self._now = 0
        self.counts = True

    def closely(self) -> None:
        """Watch each of the next calls, as many as seem worth while."""
        now = sum(seen.known for seen in self.instructions.values())
        self._next = FIRST if now > self._known else max(self._next // 2, LEAST)
        self._known = now
        self._closely = self._next

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function``, and see what runs in it where this call is to be watched."""
        self.calls += 1
        if self.counts:
            self._count(args)
        if self._closely:
            self._closely -= 1
        elif self.calls % STRIDE and not self._always:
            return function(*args, **kwargs)
        # Somebody else's trace function, as a debugger's, is left alone.
        if not self._open or sys.gettrace() is not None:
            return function(*args, **kwargs)
        self.watched += 1
        sys.settrace(self._entered)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(None)
            self._open = {c: seen for c, seen in self._open.items() if not seen.is_complete()}

    def _count(self, args: tuple[Any, ...]) -> None:
        if not args:  # built anew, or reset
            self._now = 0
            return
        self._now += 1
        self.row = max(self.row, self._now)
        if type(args[0]) is tuple:
            self.prefix = max(self.prefix, len(args[0]))

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        seen = self._open.get(frame.f_code)
        if seen is None:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        ran, branches, taken = seen.ran, seen.branches, seen.taken
        last = -1

        def at_instruction(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                now = frame.f_lasti
                ran.add(now)
                if last in branches:
                    taken.add((last, now == branches[last].straight_on))
                last = now
            return at_instruction

        return at_instruction


# Kept: while code is under audit, os._exit is another.
_exit = os._exit

_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Let ``watch`` see the calls of the code under audit that are made inside."""
    token = _CURRENT.set(watch)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Watch | None:
    """Return who watches, if anybody does."""
    return _CURRENT.get()


def watched(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call code under audit, in sight of who watches.

    A process that the code forks and that comes back from it ends here: it would audit too.
    """
    watch, own = _CURRENT.get(), os.getpid()
    try:
        return function(*args, **kwargs) if watch is None else watch.call(function, *args, **kwargs)
    finally:
        if os.getpid() != own:
            _exit(1)


def look_closely() -> None:
    """Say that an instance begins: its first calls are watched."""
    watch = _CURRENT.get()
    if watch is not None:
        watch.closely()
