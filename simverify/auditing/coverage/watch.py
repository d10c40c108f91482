"""Watches which instructions of the code under audit run, by tracing some of its calls.

A trace function slows every line of Python down, the audit's own included, so not all calls are
watched: the first ones of each instance, then one in ``STRIDE``; and none once all lines and
branches were seen. What an unwatched call alone reached counts as not reached.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from simverify.auditing.coverage.instructions import Instructions

P = ParamSpec("P")
T = TypeVar("T")

FIRST = 12
"""Calls of an instance that are watched, one after the other: half as many where those of the
instance before showed nothing new, and ``LEAST`` at least."""

LEAST = 2

STRIDE = 31
"""Then one call in so many: prime, so that it keeps step with no pattern of paths."""


class Watch:
    """What ran of some functions. ``always``: every call is watched."""

    def __init__(self, codes: list[CodeType], *, always: bool = False) -> None:
        self.instructions = {code: Instructions.of(code) for code in codes}
        self.calls = self.watched = 0
        self._open = dict(self.instructions)
        self._always = always
        self._closely = self._next = FIRST
        self._known = 0

    def closely(self) -> None:
        """Watch each of the next calls, as many as seem worth while."""
        now = sum(seen.known for seen in self.instructions.values())
        self._next = FIRST if now > self._known else max(self._next // 2, LEAST)
        self._known = now
        self._closely = self._next

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function``, and see what runs in it where this call is to be watched."""
        self.calls += 1
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
    """Call code under audit, in sight of who watches."""
    watch = _CURRENT.get()
    return function(*args, **kwargs) if watch is None else watch.call(function, *args, **kwargs)


def look_closely() -> None:
    """Say that an instance begins: its first calls are watched."""
    watch = _CURRENT.get()
    if watch is not None:
        watch.closely()
