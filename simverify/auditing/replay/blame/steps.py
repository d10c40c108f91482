"""Which lines of the code under audit a path runs, in order, and in which function's call."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from simverify.symbolic.whose import is_adapters, is_library, is_ours, is_users_file

MOST = 20_000
"""Steps of a path that are kept; what comes later is not."""


@dataclass(frozen=True)
class Step:
    """A line that ran. ``call`` numbers the function's call that it belongs to on the path.

    ``caller``: index of the step that made this call; None for the outermost one. ``own``: whether
    the line belongs to the code under audit, and not to the adapter around it. ``handed``: of the
    first line of a call from outside that code, the arguments that may hold rows or tokens.
    """

    file: str
    line: int
    call: int
    caller: int | None
    own: bool = True
    handed: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        """The line as ``file:line``."""
        return f"{self.file}:{self.line}"


class Steps:
    """Follows one path at a time; ``begin`` starts the next."""

    def __init__(self) -> None:
        self.now: list[Step] = []
        self._calls: dict[int, tuple[FrameType, int, int | None]] = {}
        self._whose: dict[CodeType, bool | None] = {}

    def begin(self) -> None:
        """Forget the path before."""
        self.now, self._calls = [], {}

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what this thread runs inside; a debugger that does already is left alone."""
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if code not in self._whose:
            self._whose[code] = _is_own(frame)
        own = self._whose[code]
        if own is None or len(self.now) >= MOST:
            return None

        def ran(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line" and len(self.now) < MOST:
                known = self._calls.get(id(frame))
                handed: tuple[str, ...] = ()
                if known is None or known[0] is not frame:
                    known = (frame, len(self._calls), self._caller(frame.f_back))
                    self._calls[id(frame)] = known
                    caller = known[2]
                    if own and (caller is None or not self.now[caller].own):
                        handed = tuple(_handed(frame))
                _, number, caller = known
                self.now.append(Step(code.co_filename, frame.f_lineno, number, caller, own, handed))
            return ran

        return ran

    def _caller(self, frame: FrameType | None) -> int | None:
        """Return the step at which the nearest followed function out from ``frame`` is."""
        while frame is not None:
            known = self._calls.get(id(frame))
            if known is not None and known[0] is frame:
                number = known[1]
                return next(
                    i for i in range(len(self.now) - 1, -1, -1) if self.now[i].call == number
                )
            frame = frame.f_back
        return None


_SETTINGS = (bool, int, float, str, bytes, type(None))
_SETTINGS_OF_TORCH = frozenset({"dtype", "device", "Generator"})


def _handed(frame: FrameType) -> Iterator[str]:
    """Yield the arguments of a call that are no settings, as a size or a temperature is."""
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        value = frame.f_locals.get(name)
        if not isinstance(value, _SETTINGS) and type(value).__name__ not in _SETTINGS_OF_TORCH:
            yield name


def _is_own(frame: FrameType) -> bool | None:
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    if is_adapters(file):
        return False
    return True if is_users_file(file) and not (is_ours(module) or is_library(module)) else None
