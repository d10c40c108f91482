"""Ctrl-C at any moment, imports included: one line and exit code 130.

Imports nothing slow: the handler has to stand before whatever takes time is loaded.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from contextlib import contextmanager

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn

INTERRUPT_EXIT_CODE = 130
INTERRUPT_MESSAGE = "simverify: interrupted; nothing was written\n"

RETRY_SECONDS = 0.02
"""After so long an interrupt that was ignored is sent again."""

# The real one: while code is under audit, os._exit is replaced.
_exit = os._exit


def leave_on_interrupt() -> None:
    """Handle SIGINT from here on, unless whoever started this process had it ignored.

    While a command works the first one raises ``KeyboardInterrupt``, so that what was begun is
    cleaned up. During an import it leaves at once: an exception raised half-way through the
    loading of compiled code may be swallowed, or come out as another one. So does a second one.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_first_interrupt)
        sys.unraisablehook = _retry_ignored(sys.unraisablehook)


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is to be told what was kept."""


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Raise ``Terminated`` at SIGTERM meanwhile, unless somebody handles it already.

    For commands without processes of their own, which would take the handler over.
    """
    if (
        signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise_terminated(_number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _is_importing(frame):
        _exit_interrupted()
    raise Terminated


def ignore_interrupts() -> None:
    """Let an interrupt come too late: the result is out and only the exit is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_first_interrupt(_number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, lambda *_: _exit_interrupted())
    if _is_importing(frame):
        _exit_interrupted()
    raise KeyboardInterrupt


def _retry_ignored(
    report: Callable[[UnraisableHookArgs], object],
) -> Callable[[UnraisableHookArgs], None]:
    """Send an interrupt again that Python had to ignore, as in a callback that C code calls."""
    timer: threading.Timer | None = None

    def hook(unraisable: UnraisableHookArgs) -> None:
        nonlocal timer
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        number, handler = signal.SIGINT, _on_first_interrupt
        if issubclass(unraisable.exc_type, Terminated):
            number, handler = signal.SIGTERM, _raise_terminated
        signal.signal(number, handler)
        if timer is not None and timer.is_alive():
            return
        # At once it would be raised here, and ignored again.
        timer = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()

    return hook


def _is_importing(frame: FrameType | None) -> bool:
    machinery = {"<frozen importlib._bootstrap>", importlib.__file__}
    while frame is not None:
        if frame.f_code.co_filename in machinery:
            return True
        frame = frame.f_back
    return False


def _exit_interrupted() -> NoReturn:
    # A progress line on a terminal hides the cursor while it turns.
    clear = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    try:
        os.write(2, (clear + INTERRUPT_MESSAGE).encode())
    finally:
        _exit(INTERRUPT_EXIT_CODE)
