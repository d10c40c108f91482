"""Ends a run of the user's code at a deadline, also inside an endless loop."""

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from simverify.audit import board

REPEAT_SECONDS = 0.25


class Expired(BaseException):
    """Raised in the user's code; not an Exception, so that ``except Exception`` passes it."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise :class:`Expired` in this thread once ``seconds`` have passed, and again until left.

    Uses SIGALRM in the main thread where nobody else does, so that a blocking call ends too;
    a helper thread otherwise.
    """
    if seconds is None:
        yield
        return
    with board.until(seconds), _alarm(seconds):
        yield


def _alarm(seconds: float) -> AbstractContextManager[None]:
    if (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN, None)
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    ):
        return _by_signal(seconds)
    return _by_thread(seconds)


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def expire(number: int, frame: Any) -> None:
        raise Expired

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    done = threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            with lock:
                if not done.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Expired))
            wait = REPEAT_SECONDS

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            done.set()
            # One that was set and not yet raised must not strike outside.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)
        watcher.join()


def now() -> float:
    """Seconds on the clock that deadlines are kept by."""
    return time.monotonic()
