"""What code under audit may not do to the process that audits it."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from types import FrameType, ModuleType
from typing import Any, NoReturn

from simverify.errors import Unsupported

_ENDS = ((os, "_exit"), (os, "abort"))
_SIGNALS = ((os, "kill"), (os, "killpg"), (signal, "raise_signal"))

_told_apart = False


class Interrupted(KeyboardInterrupt):
    """The user pressed Ctrl-C; a plain ``KeyboardInterrupt`` may be the code's own."""


def from_user(error: BaseException) -> bool:
    """Whether ``error`` is the user's wish to end the run, not an exception of the code.

    So is what a stand-in of ours does not compute: it ends the run, and says nothing of the code.
    """
    if isinstance(error, Unsupported):
        return True
    if not isinstance(error, KeyboardInterrupt):
        return False
    return isinstance(error, Interrupted) or not _told_apart


class Noise(io.RawIOBase):
    """Takes what code prints: a call is made thousands of times, so none of it is shown.

    ``size``: bytes written; ``first``: how they began.
    """

    def __init__(self) -> None:
        self.size = 0
        self.first = b""

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Count ``data`` and keep the beginning."""
        if len(self.first) < 200:
            self.first += bytes(data[:200])
        self.size += len(data)
        return len(data)

    @property
    def line(self) -> str:
        """The first line that was printed, as far as it was kept."""
        return self.first.decode(errors="replace").strip().partition("\n")[0][:60]


@contextmanager
def contained() -> Iterator[Noise]:
    """Let code under audit neither end the process, nor write where results go.

    Ctrl-C raises :class:`Interrupted` meanwhile, where its handler is Python's own: so an
    interrupt that the code raises itself is told apart from the user's. May be nested.
    """
    noise = Noise()
    with ExitStack() as stack:
        for owner, name in _ENDS:
            _replace(stack, owner, name, _only_in_children(getattr(owner, name)))
        for owner, name in _SIGNALS:
            if hasattr(owner, name):
                _replace(stack, owner, name, _unless_ours(getattr(owner, name)))
        _tell_interrupts_apart(stack)
        buffer: Any = noise
        with redirect_stdout(io.TextIOWrapper(buffer, "utf-8", "replace", write_through=True)):
            yield noise


def _replace(stack: ExitStack, owner: Any, name: str, new: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, new)


def _only_in_children(end: Any) -> Any:
    """Return ``end`` for processes that the code forks, which would else go on as audits."""
    own = os.getpid()

    def ends(*status: Any) -> NoReturn:
        if os.getpid() == own:
            raise SystemExit("ended the process")
        end(*status)
        raise AssertionError

    return ends


def _unless_ours(send: Any) -> Any:
    """Return ``send`` for signals to other processes; one to this process would end it."""

    def sends(*to: int) -> None:
        own = len(to) == 1 or to[0] in (0, os.getpid(), os.getpgrp(), -os.getpgrp())
        if own and to[-1] != 0:
            raise SystemExit(f"sent signal {int(to[-1])} to its own process")
        send(*to)

    return sends


def _tell_interrupts_apart(stack: ExitStack) -> None:
    global _told_apart
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread():
        if handler is signal.default_int_handler:
            stack.callback(signal.signal, signal.SIGINT, handler)
            signal.signal(signal.SIGINT, _interrupt)
        elif handler not in (signal.SIG_IGN, _interrupt):
            return
    stack.callback(globals().__setitem__, "_told_apart", _told_apart)
    _told_apart = True


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted


_SHARED = (
    "builtins", "math", "random", "itertools", "functools", "operator", "time",
    "numpy", "numpy.random", "numpy.linalg", "torch", "torch.nn.functional",
)  # fmt: skip


class Shared:
    """The public functions, classes and modules in the shared modules, as they are now."""

    def __init__(self) -> None:
        modules = [(name, sys.modules[name]) for name in _SHARED if name in sys.modules]
        self._kept = [
            (vars(module), f"{name}.{key}", key, value)
            for name, module in modules
            for key, value in vars(module).items()
            if not key.startswith("_") and (callable(value) or isinstance(value, ModuleType))
        ]
        self._kept += [(sys.modules, f"sys.modules[{name!r}]", name, m) for name, m in modules]

    def restore(self) -> str:
        """Put everything back; a finding in words that names the first replaced, or ""."""
        # Not one builtin is called before they are all back: one of them may be what is gone.
        first, others = "", 0
        for space, name, key, value in self._kept:
            if space.get(key) is not value:
                space[key] = value
                first, others = first or name, others + 1
        if not first:
            return ""
        more = f" and {others - 1} more" if others > 1 else ""
        return f"shared-modules: replaces {first}{more} for the whole process"
