"""Runs work in a child process, so that code that ends its process ends only that one.

A fork, made before the code is loaded where that can be: it costs milliseconds, and the work
needs no name by which another interpreter could import it.
"""

import faulthandler
import os
import pickle
import re
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from simverify.engines.bridge.protocol import ON_THE_LINE
from simverify.errors import SimverifyError
from simverify.symbolic.guards import watchdog
from simverify.symbolic.guards.orphans import die_with_parent
from simverify.symbolic.guards.watchdog import WAITING
from simverify.symbolic.whose import is_users_file

GRACE = 5.0
"""Seconds after a deadline at which code that an exception should have ended is killed."""

_LOOK = 0.25
_LENGTH = struct.Struct("Q")
_FORK = hasattr(os, "fork")

_NO_GPU = re.compile(
    r"(?:^|\w: )(?:Cannot re-initialize CUDA in forked|CUDA error: initialization error)"
)
"""What torch says in a child of a process that uses a GPU, and findings say that it raised."""

# Kept: while code is under audit, os._exit is another.
_exit = os._exit

Say = Callable[[str], None]


@dataclass(frozen=True)
class Died:
    """How a child ended that gave no result: in words, and what it was doing."""

    how: str
    place: str
    hung: bool = False


def in_child(work: Callable[[Say], Any], say: Say) -> Any:
    """Return ``work(say)``, run in a child, or :class:`Died` if the child brought no result.

    The result, and an exception of ``work``, which is raised here, are pickled. What ``work``
    says is said here. Where a process cannot be forked, ``work`` runs in this one; and so it does
    once more where it needs a GPU that this process used before, as no child can use it.
    """
    if not _FORK:
        return work(say)
    try:
        result = _forked(work, say)
    except Exception as error:
        if not _wants_our_gpu(str(error)):
            raise
    else:
        if not _wants_our_gpu(repr(result)):
            return result
    say("again in this process: it has used the GPU, which a child of it cannot")
    return work(say)


def _wants_our_gpu(told: str) -> bool:
    """Whether a child came to nothing since this process uses the GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return _NO_GPU.search(told) is not None


def _forked(work: Callable[[Say], Any], say: Say) -> Any:
    shown = watchdog.Board()
    traces = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, in both processes
    reader, writer = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()  # or both would write what is waiting
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which the work leaves alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        faulthandler.enable(traces, all_threads=False)
        _work(work, shown, writer)
    os.close(writer)
    status = None
    try:
        last = _listen(reader, child, shown, say)
        if isinstance(last, Died):
            return last
        _, status = os.waitpid(child, 0)
        if last is None:
            # A call of a library has no line of Python but that of whoever asked for the audit.
            where = "" if ON_THE_LINE in shown.place else _where(traces)
            return Died(_how(status) + where, shown.place)
        kind, value = last
        if kind == "raised":
            raise value
        return value
    finally:
        os.close(reader)
        traces.close()
        if status is None:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _work(work: Callable[[Say], Any], shown: watchdog.Board, writer: int) -> None:
    """Be the child: never returns."""
    code = 1
    try:
        # Ctrl-C reaches the parent, which ends us; an interrupt here is the code's own doing.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent()
        sys.argv[:] = [""]  # the code under audit need not know what runs it
        # Compiled code prints past sys.stdout, and the parent's result goes there.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        watchdog.write_on(shown)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the threads it has had are in the parent only

        def send(kind: Literal["said", "raised", "done"], value: Any) -> None:
            message = pickle.dumps((kind, value))
            with os.fdopen(writer, "wb", closefd=False) as pipe:
                pipe.write(_LENGTH.pack(len(message)) + message)

        try:
            result = work(lambda line: send("said", line))
        except BaseException as error:
            if not isinstance(error, SimverifyError):
                error.add_note("".join(traceback.format_exception(error)))
            send("raised", _sendable(error))
        else:
            send("done", result)
        code = 0
    finally:
        _exit(code)


def _listen(reader: int, child: int, shown: watchdog.Board, say: Say) -> Any:
    """Return the child's last message, :class:`Died` if it is stuck, or None if it is gone."""
    patience = Patience()
    while True:
        if not select.select([reader], [], [], _LOOK)[0]:
            how = patience.ended(shown, time.monotonic(), _processor_seconds(child))
            if how is not None:
                return Died(how, shown.place, hung=True)
            continue
        head = _read(reader, _LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack(head)
        message = _read(reader, size)
        if len(message) < size:
            return None
        kind, value = pickle.loads(message)
        if kind != "said":
            return kind, value
        say(value)


class Patience:
    """Tells a call that nothing can interrupt from one that a busy machine keeps waiting."""

    def __init__(self) -> None:
        self._late: tuple[float, float | None] | None = None

    def ended(self, shown: watchdog.Board, wall: float, processor: float | None) -> str | None:
        """Return in words why the child is to be ended, or None.

        ``wall``: the time now; ``processor``: seconds the child has had so far, None where the
        system does not tell.
        """
        wall_ends, processor_ends = shown.deadlines
        if wall <= wall_ends:
            self._late = None
            return None
        self._late = self._late or (wall, processor)
        since, had = self._late
        waited = wall - since
        if waited < GRACE:
            return None
        late = f"no answer within {GRACE:g} s of wall clock after its limit"
        if processor is None or had is None:
            return late
        if processor >= processor_ends + GRACE:
            return "a call did not return, and nothing could interrupt it"
        if processor - had < WAITING * waited:
            return f"{late}: a call waits for something, and nothing could interrupt it"
        return None


def _processor_seconds(child: int) -> float | None:
    """Return the processor seconds that a process has had, where the system tells."""
    import psutil  # few children say nothing for so long

    try:
        times = psutil.Process(child).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _read(reader: int, size: int) -> bytes:
    """Return ``size`` bytes, or fewer if the other end is closed."""
    parts = b""
    while len(parts) < size and (part := os.read(reader, size - len(parts))):
        parts += part
    return parts


_MEANINGS = {
    "SIGSEGV": " (a segmentation fault)",
    "SIGKILL": " (killed from outside, as when memory is short)",
    "SIGABRT": " (it aborted)",
}


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
        return f"the process was ended by the signal {name}{_MEANINGS.get(name, '')}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"


def _where(traces: Any) -> str:
    """`` at file:line`` of the code's innermost line in Python's last trace, if there is one."""
    traces.seek(0)
    for line in traces.read().decode(errors="replace").splitlines():
        found = re.match(r'  File "(.+)", line (\d+)', line)
        if found and is_users_file(found[1]):
            return f" at {found[1]}:{found[2]}"
    return ""


def _sendable(error: BaseException) -> BaseException:
    # Some libraries, such as tblib for Dask, have an error pickled with its traceback and with
    # those that it came of, any of which may not come back. Its notes have the traceback in words.
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
