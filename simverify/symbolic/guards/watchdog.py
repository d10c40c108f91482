"""Ends a run of the user's code at a deadline, also inside an endless loop.

An audit in a child process also says where it is, in memory that its parent reads when the child
is gone. A process that is killed says no last words. What it was doing, and by when a call of the
code under audit has to be over, therefore stands on a board that outlives it.
"""

import ctypes
import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

_SIZE = 4096
_HEAD = struct.Struct("ddH")

_NEVER = (float("inf"), float("inf"))


class Board:
    """Shared memory with the place of the audit and its deadlines.

    One on the wall clock (``time.monotonic``), one in processor seconds of the process.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self.write(_NEVER, "")

    def write(self, deadlines: tuple[float, float], place: str) -> None:
        """Put up all."""
        text = place.encode(errors="replace")[: _SIZE - _HEAD.size]
        self._memory[: _HEAD.size + len(text)] = _HEAD.pack(*deadlines, len(text)) + text

    @property
    def deadlines(self) -> tuple[float, float]:
        """When the call of the code has to be over; infinite where nothing limits it."""
        wall, processor, _ = _HEAD.unpack_from(self._memory)
        return wall, processor

    @property
    def place(self) -> str:
        """What the audit was doing."""
        size = int(_HEAD.unpack_from(self._memory)[2])
        return self._memory[_HEAD.size : _HEAD.size + size].decode(errors="replace")


def _in(seconds: float) -> tuple[float, float]:
    return time.monotonic() + seconds, time.process_time() + seconds


_board: Board | None = None


def write_on(board: Board) -> None:
    """Let this process, a child, write on ``board`` from here on."""
    global _board
    _board = board


def in_a_child() -> bool:
    """Whether this process is a child that somebody watches, and may be lost."""
    return _board is not None


def doing(place: str) -> None:
    """Say what begins; nobody reads it where there is no parent."""
    if _board is not None:
        _board.write(_board.deadlines, place)


def _extend(seconds: float) -> None:
    """Say that what runs is interrupted so much later than now instead."""
    if _board is not None:
        _board.write(_in(seconds), _board.place)


@contextmanager
def _shown_until(seconds: float) -> Iterator[None]:
    """Say that what runs inside is interrupted after ``seconds``."""
    if _board is None:
        yield
        return
    before = _board.deadlines
    _board.write(min(before, _in(seconds)), _board.place)
    try:
        yield
    finally:
        _board.write(before, _board.place)


@contextmanager
def calling(seconds: float, what: Callable[[], str]) -> Iterator[None]:
    """Say that a call is made inside that nothing in this process can interrupt.

    It has ``seconds``; ``what`` is asked only where a parent reads it, when the call is its end.
    """
    if _board is None:
        yield
        return
    before, place = _board.deadlines, _board.place
    _board.write(min(before, _in(seconds)), f"{place}, {what()}")
    try:
        yield
    finally:
        _board.write(before, place)


REPEAT_SECONDS = 0.25

WAITING = 0.05
"""Share of the processor below which a thread is taken to wait for something else than it."""


class Stopwatch:
    """Seconds that the code took, however busy the machine is.

    They are processor seconds of this thread; where it hardly used any, because it sleeps or
    blocks, those of the wall clock, less what it waited for a processor. ``wall``: when it was
    made, by :func:`now`.
    """

    def __init__(self) -> None:
        self._thread = threading.get_native_id()
        self.wall, self._cpu = time.monotonic(), time.thread_time()
        self._kept_waiting = kept_waiting(self._thread)

    def seconds(self) -> float:
        """Seconds since it was made, in the thread that made it."""
        wall, cpu = time.monotonic() - self.wall, time.thread_time() - self._cpu
        if cpu > WAITING * wall:  # whatever it waited for, and asking costs more than all of this
            return cpu
        return _counted(wall, cpu, kept_waiting(self._thread) - self._kept_waiting)


def _counted(wall: float, cpu: float, waited: float) -> float:
    own = max(cpu, wall - waited)
    return cpu if cpu > WAITING * own else own


def kept_waiting(thread: int, process: int | str = "self") -> float:
    """Seconds in which a thread could have run and got no processor; 0 where nobody knows.

    ``process``: whose it is, where it is not this one's. Linux counts them. Without it, a thread
    that gets a twentieth of a processor looks asleep.
    """
    try:
        # Not by ``open``, which takes twice as long, around every block of an audit.
        file = os.open(f"/proc/{process}/task/{thread}/schedstat", os.O_RDONLY)
        try:
            return int(os.read(file, 128).split()[1]) / 1e9
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return 0.0


class Expired(BaseException):
    """Raised in the user's code; not an Exception, so that ``except Exception`` passes it."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise :class:`Expired` in this thread once ``seconds`` have passed, and again until left.

    The seconds are those of :class:`Stopwatch`: a busy machine ends nothing early.
    Uses SIGALRM in the main thread where nobody else does, so that a blocking call ends too;
    a helper thread otherwise.
    """
    if seconds is None:
        yield
        return
    with _shown_until(seconds), _swallowed(), _alarm(seconds):
        yield


@contextmanager
def _swallowed() -> Iterator[None]:
    """Say nothing of an :class:`Expired` that struck in a destructor or a collector's callback.

    Python lets no exception out of there, and tells of it; this one comes again.
    """
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is not Expired:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


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
    watch = Stopwatch()

    def expire(number: int, frame: Any) -> None:
        left = seconds - watch.seconds()
        if left <= 0:
            raise Expired
        _extend(left)
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-2), REPEAT_SECONDS)

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
    struck = False
    wall, cpu = time.monotonic(), time.process_time()
    native = threading.get_native_id()
    waited = kept_waiting(native)

    def strike() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Expired))

    def watch() -> None:
        nonlocal struck
        wait = seconds
        while not done.wait(wait):
            # The processor seconds of another thread cannot be read everywhere.
            left = seconds - _counted(
                time.monotonic() - wall, time.process_time() - cpu, kept_waiting(native) - waited
            )
            if left > 0:
                _extend(left)
                wait = max(left, 1e-2)
                continue
            with lock:
                if not done.is_set():
                    struck = True
                    strike()
            wait = REPEAT_SECONDS

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        while not done.is_set():
            with suppress(Expired):
                with lock:
                    done.set()
                # One that was set and not yet raised must not strike outside, so one is raised
                # here. Clearing it would not do: CPython 3.11 then keeps looking for one for
                # ever, and a function that is traced never gets past its first instruction.
                if struck:
                    strike()
                    while True:
                        time.sleep(0)
        watcher.join()


def now() -> float:
    """Seconds on the clock that deadlines are kept by."""
    return time.monotonic()
