"""Which instructions of the code under audit run, call by call.

Where Python has ``sys.monitoring`` (3.12 and later) every call is watched: an instruction reports
itself once, and then costs nothing. Before that, what runs is seen by a trace function, which slows
every line of Python down, the audit's own included, so not all calls are watched: the first ones
of each instance, then one in ``STRIDE``. Either way none is once all lines and branches were seen,
and what an unwatched call alone reached counts as not reached.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from simverify.auditing.coverage.places import Instructions
from simverify.auditing.coverage.seeing import Sight

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

    ``named``: the numbers of the code by their names, which lead to what did not run.
    ``prefix``: the longest that a step was called on; ``row``: the most calls since it was built,
    while ``counts`` was true.
    """

    def __init__(
        self,
        codes: list[CodeType],
        *,
        always: bool = False,
        named: Mapping[str, set[int | float]] | None = None,
    ) -> None:
        self.named = named or {}
        self.instructions = {code: Instructions.of(code) for code in codes}
        self.calls = self.watched = 0
        self._open = dict(self.instructions)
        self._sight = Sight(self._open, codes)
        self._always = always or self._sight.is_cheap
        self._closely = self._next = FIRST
        self._known = 0
        self._instance: Any = None
        self.led: list[Any] = []
        self.prefix = self.row = self._now = 0
        self.counts = True

    @property
    def known(self) -> int:
        """How much was seen so far."""
        return sum(seen.known for seen in self.instructions.values())

    def closely(self, instance: Any = None, least: int = LEAST) -> None:
        """Watch each of the next calls, as many as seem worth while, and ``least`` of them.

        They are those of ``instance``, which is noted in ``led`` if something new runs in them.
        """
        now = self.known
        if now > self._known and self._instance is not None:
            self.led.append(self._instance)
        self._instance = instance
        self._next = FIRST if now > self._known else max(self._next // 2, least)
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
        if not self._open or not self._sight.begin():
            return function(*args, **kwargs)
        self.watched += 1
        try:
            return function(*args, **kwargs)
        finally:
            for code in [code for code, seen in self._open.items() if seen.is_complete()]:
                del self._open[code]
            if not self._open or not self._sight.is_cheap:
                self._sight.end()

    def _count(self, args: tuple[Any, ...]) -> None:
        if not args:  # built anew, or reset
            self._now = 0
            return
        self._now += 1
        self.row = max(self.row, self._now)
        if type(args[0]) is tuple:
            self.prefix = max(self.prefix, len(args[0]))

    def end(self) -> None:
        """Watch no more."""
        self._sight.end()


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
        watch.end()
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


def look_closely(instance: Any = None) -> None:
    """Say that an instance begins: its first calls are watched."""
    watch = _CURRENT.get()
    if watch is not None:
        watch.closely(instance)
