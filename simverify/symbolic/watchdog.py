"""Deadlines and limits for a run of the user's code: endless loops, exits, signals, output.

An audit in a child process also says where it is, in memory that its parent reads when the child
is gone. A killed process cannot report. What it was doing, and by when a call of the code under
audit has to be over, therefore stands on a board that outlives it.
"""

# ruff: noqa: D102, D103 - methods and functions whose name and types say what a docstring would

import ctypes
import io
import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout, suppress
from types import FrameType, ModuleType
from typing import Any, NoReturn

from simverify.errors import Unsupported

# Containment: what code under audit may not do to the process that audits it.


_EXIT_FUNCTIONS = ((os, "_exit"), (os, "abort"))
_SIGNAL_FUNCTIONS = ((os, "kill"), (os, "killpg"), (signal, "raise_signal"))

_distinguishes_interrupts = False


class UserInterrupt(KeyboardInterrupt):
    """The user pressed Ctrl-C; a plain ``KeyboardInterrupt`` may be the code's own."""


def is_user_interrupt(error: BaseException) -> bool:
    """Whether the user, or a stand-in that computes no further, ends the run, and not the code."""
    if isinstance(error, Unsupported):
        return True
    if not isinstance(error, KeyboardInterrupt):
        return False
    return isinstance(error, UserInterrupt) or not _distinguishes_interrupts


class OutputSink(io.RawIOBase):
    """Takes what code prints, and keeps the ``size`` in bytes and the ``first`` of them."""

    def __init__(self) -> None:
        self.size = 0
        self.first = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if len(self.first) < 200:
            self.first += bytes(data[:200])
        self.size += len(data)
        return len(data)

    @property
    def line(self) -> str:
        """The first line that was printed, as far as it was kept."""
        return self.first.decode(errors="replace").strip().partition("\n")[0][:60]


@contextmanager
def contain_process() -> Iterator[OutputSink]:
    """Let code under audit neither end the process, nor write where results go.

    Ctrl-C raises :class:`UserInterrupt` meanwhile, where its handler is Python's own: so an
    interrupt that the code raises itself differs from the user's. May be nested.
    """
    noise = OutputSink()
    with ExitStack() as stack:
        for owner, name in _EXIT_FUNCTIONS:
            _replace_attribute(stack, owner, name, _allow_in_children(getattr(owner, name)))
        for owner, name in _SIGNAL_FUNCTIONS:
            if hasattr(owner, name):
                _replace_attribute(stack, owner, name, _block_own_process(getattr(owner, name)))
        _distinguish_interrupts(stack)
        buffer: Any = noise
        with redirect_stdout(io.TextIOWrapper(buffer, "utf-8", "replace", write_through=True)):
            yield noise


def _replace_attribute(stack: ExitStack, owner: Any, name: str, new: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, new)


def _allow_in_children(end: Any) -> Any:
    """Return ``end`` for processes that the code forks: without it they continue as audits."""
    pid = os.getpid()

    def ends(*status: Any) -> NoReturn:
        if os.getpid() == pid:
            raise SystemExit("ended the process")
        end(*status)
        raise AssertionError

    return ends


def _block_own_process(send: Any) -> Any:
    """Return ``send`` for signals to other processes; one to this process would end it."""

    def sends(*to: int) -> None:
        internal = len(to) == 1 or to[0] in (0, os.getpid(), os.getpgrp(), -os.getpgrp())
        if internal and to[-1] != 0:
            raise SystemExit(f"sent signal {int(to[-1])} to its own process")
        send(*to)

    return sends


def _distinguish_interrupts(stack: ExitStack) -> None:
    global _distinguishes_interrupts
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread():
        if handler is signal.default_int_handler:
            stack.callback(signal.signal, signal.SIGINT, handler)
            signal.signal(signal.SIGINT, _raise_user_interrupt)
        elif handler not in (signal.SIG_IGN, _raise_user_interrupt):
            return
    stack.callback(globals().__setitem__, "_distinguishes_interrupts", _distinguishes_interrupts)
    _distinguishes_interrupts = True


def _raise_user_interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise UserInterrupt


_SHARED_MODULES = (
    *("builtins", "math", "random", "itertools", "functools", "operator", "time"),
    *("numpy", "numpy.random", "numpy.linalg", "torch", "torch.nn.functional"),
)


class SharedModules:
    """The public functions, classes and modules in the shared modules, as they are now."""

    def __init__(self) -> None:
        modules = [(name, sys.modules[name]) for name in _SHARED_MODULES if name in sys.modules]
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


_BOARD_SIZE = 4096
_BOARD_HEADER = struct.Struct("ddH")

_NO_DEADLINES = (float("inf"), float("inf"))


class ProgressBoard:
    """Shared memory: the audit's place, its deadlines by the wall and by the processor's clock."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BOARD_SIZE)
        self.write(_NO_DEADLINES, "")

    def write(self, deadlines: tuple[float, float], place: str) -> None:
        text = place.encode(errors="replace")[: _BOARD_SIZE - _BOARD_HEADER.size]
        self._memory[: _BOARD_HEADER.size + len(text)] = (
            _BOARD_HEADER.pack(*deadlines, len(text)) + text
        )

    @property
    def deadlines(self) -> tuple[float, float]:
        """When the call of the code has to be over; infinite where nothing limits it."""
        wall, processor, _ = _BOARD_HEADER.unpack_from(self._memory)
        return wall, processor

    @property
    def place(self) -> str:
        size = int(_BOARD_HEADER.unpack_from(self._memory)[2])
        return self._memory[_BOARD_HEADER.size : _BOARD_HEADER.size + size].decode(errors="replace")


def _deadlines_in(seconds: float) -> tuple[float, float]:
    return time.monotonic() + seconds, time.process_time() + seconds


_board: ProgressBoard | None = None


def use_board(board: ProgressBoard) -> None:
    global _board
    _board = board


def is_child_process() -> bool:
    """Whether this process is a child that its parent watches, and may lose."""
    return _board is not None


def report_activity(place: str) -> None:
    """Tell the parent, if there is one, what begins."""
    if _board is not None:
        _board.write(_board.deadlines, place)


def _extend_deadline(seconds: float) -> None:
    """Say that what runs is interrupted so much later than now instead."""
    if _board is not None:
        _board.write(_deadlines_in(seconds), _board.place)


@contextmanager
def _published_deadline(seconds: float, doing: Callable[[], str] | None = None) -> Iterator[None]:
    """Say that what runs inside is interrupted after ``seconds``; ``doing`` is added inside."""
    if _board is None:
        yield
        return
    before, place = _board.deadlines, _board.place
    inside = f"{place}, {doing()}" if doing else place
    _board.write(min(before, _deadlines_in(seconds)), inside)
    try:
        yield
    finally:
        _board.write(before, place if doing else _board.place)


def uninterruptible_call(seconds: float, what: Callable[[], str]) -> AbstractContextManager[None]:
    """Say that nothing in this process can interrupt ``what`` runs inside, for ``seconds``."""
    return _published_deadline(seconds, what)


REPEAT_SECONDS = 0.25

MIN_PROCESSOR_SHARE = 0.05
"""Share of the processor below which a thread is taken to wait for something else than it."""


_MIN_AWAKE_SHARE = 0.25
"""Where Linux does not say how long a thread waited for a processor: the same for budgets."""


class Stopwatch:
    """Seconds that the code took, however busy the machine is.

    They are processor seconds of this thread; where it hardly used any, because it sleeps or
    blocks, those of the wall clock, less what it waited for a processor. ``wall``: when it was
    made, by :func:`monotonic_now`. ``of_process``: count those of all threads. ``sleeps``: count
    what the code sleeps between computing too, as a budget must; a deadline of one call need not.
    """

    def __init__(self, *, of_process: bool = False, sleeps: bool = False) -> None:
        self._thread = threading.get_native_id()
        self._processor = time.process_time if of_process else time.thread_time
        self._sleeps = sleeps
        # First: a wait between the two lines must not count as seconds of the code.
        self._waited = run_queue_seconds(self._thread)
        self.wall, self._cpu = time.monotonic(), self._processor()
        self._shown = 0.0

    def seconds(self) -> float:
        """Seconds since it was made, in the thread that made it; they never go back."""
        self._shown = max(self._shown, self._measure())
        return self._shown

    def _measure(self) -> float:
        wall, cpu = time.monotonic() - self.wall, self._processor() - self._cpu
        # Whatever it waited for; asking costs more than all of this.
        if cpu > (1.0 if self._sleeps else MIN_PROCESSOR_SHARE) * wall:
            return cpu
        waited = run_queue_seconds(self._thread)
        active = max(cpu, wall - (waited - self._waited))
        if self._sleeps and (waited > 0.0 or cpu <= _MIN_AWAKE_SHARE * wall):
            return active
        return cpu if cpu > MIN_PROCESSOR_SHARE * active else active


def run_queue_seconds(thread: int, process: int | str = "self") -> float:
    """Seconds in which a thread could have run and got no processor; 0 where that is unknown.

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


class DeadlineExpired(BaseException):
    """Raised in the user's code; not an Exception, so that ``except Exception`` passes it."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise :class:`DeadlineExpired` in this thread after ``seconds``, and again until left.

    The seconds are those of :class:`Stopwatch`: a busy machine ends nothing early. Where a library
    compiles when they are over, they begin anew.
    Uses SIGALRM in the main thread where nobody else does, so that a blocking call ends too;
    a helper thread otherwise.
    """
    if seconds is None:
        yield
        return
    with _published_deadline(seconds), _silenced_expiry(), _interrupt_after(seconds):
        yield


@contextmanager
def _silenced_expiry() -> Iterator[None]:
    """Ignore :class:`DeadlineExpired` in a destructor, which Python reports: it comes again."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is not DeadlineExpired:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt_after(seconds: float) -> AbstractContextManager[None]:
    if (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN, None)
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    ):
        return _interrupt_by_signal(seconds)
    return _interrupt_by_thread(seconds)


_COMPILERS = (
    "numba.core.compiler",
    "jax._src.compiler",
    "torch._dynamo.convert_frame",
    "torch._inductor.",
)
"""Modules that run while a library compiles: it is no hang, and one that is broken off stays half
done in the library."""

MAX_COMPILE_SECONDS = 60.0
"""What compiles for longer, again and again, is interrupted like anything else."""


def _is_compiling(frame: Any) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False


@contextmanager
def _interrupt_by_signal(seconds: float) -> Iterator[None]:
    watch, compiled = Stopwatch(), 0.0

    def expire(number: int, frame: Any) -> None:
        nonlocal compiled
        now = watch.seconds()
        if compiled < now < MAX_COMPILE_SECONDS and _is_compiling(frame):
            compiled = now
        left = seconds - (now - compiled)
        if left <= 0:
            raise DeadlineExpired
        _extend_deadline(left)
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-2), REPEAT_SECONDS)

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _interrupt_by_thread(seconds: float) -> Iterator[None]:
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    done = threading.Event()
    struck = False
    # The processor seconds of another thread cannot be read everywhere.
    stopwatch, compiled = Stopwatch(of_process=True), 0.0

    def strike() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(DeadlineExpired))

    def watch() -> None:
        nonlocal struck, compiled
        wait = seconds
        while not done.wait(wait):
            now = stopwatch.seconds()
            frame = sys._current_frames().get(thread.value)
            if compiled < now < MAX_COMPILE_SECONDS and _is_compiling(frame):
                compiled = now
            left = seconds - (now - compiled)
            if left > 0:
                _extend_deadline(left)
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
            with suppress(DeadlineExpired):
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


def monotonic_now() -> float:
    """Seconds on the clock that deadlines are kept by."""
    return time.monotonic()


# Children that end with their parent.


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PARENT_DEATH_SIGNAL = 1


def die_with_parent() -> None:
    """Ask Linux to end this process with its parent, which a CI may kill."""
    if _LIBC is not None:
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
