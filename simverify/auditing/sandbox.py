"""Runs work in a child process, so that code that ends its process ends only the child.

A fork, made before the code is loaded where that can be: it costs milliseconds, and the work
needs no name by which another interpreter could import it.
"""

import faulthandler
import multiprocessing
import os
import pickle
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np

from simverify.engines.bridge import REQUEST_PREFIX
from simverify.errors import SimverifyError
from simverify.symbolic import watchdog
from simverify.symbolic.compiled import keep_mlx_state, loaded_mlx
from simverify.symbolic.provenance import is_user_file
from simverify.symbolic.watchdog import MIN_PROCESSOR_SHARE, die_with_parent

KILL_GRACE_SECONDS = 5.0
"""Seconds after a deadline at which code that an exception should have ended is killed."""

_POLL_SECONDS = 0.25
_HAS_FORK = hasattr(os, "fork")

_GPU_FORK_ERROR = re.compile(
    r"(?:^|\w: )(?:Cannot re-initialize CUDA in forked|CUDA error: initialization error)"
)
"""What torch says in a child of a process that uses a GPU, and findings say that it raised."""

# The real one: while code is under audit, os._exit is replaced.
_exit = os._exit

SayProgress = Callable[[str], None]


@dataclass(frozen=True)
class ChildDeath:
    """How a child ended that gave no result: in words, and what it was doing."""

    how: str
    place: str
    hung: bool = False


def run_in_child(work: Callable[[SayProgress], Any], say: SayProgress) -> Any:
    """Return ``work(say)``, run in a child, or :class:`ChildDeath` if the child brought no result.

    The result is pickled, and so is an exception of ``work``, which is raised here. ``work`` runs
    in this process if it cannot be forked or computes with JAX or MLX, and again if it needs a GPU
    that this process uses.
    """
    if not _HAS_FORK or has_threads_of_libraries():
        return work(say)
    try:
        result = _run_forked(work, say)
    except Exception as error:
        if not _needs_parent_gpu(str(error)):
            raise
    else:
        if not _needs_parent_gpu(repr(result)):
            return result
    say("again in this process: it has used the GPU, which a child of it cannot")
    return work(say)


def has_threads_of_libraries() -> bool:
    """Whether JAX or MLX may have threads here: a fork lacks them, and its calls of these hang."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    jax = bridge is not None and getattr(bridge, "backends_are_initialized", lambda: True)()
    return jax or loaded_mlx() is not None


def _needs_parent_gpu(message: str) -> bool:
    """Whether a child failed because this process uses the GPU."""
    torch = sys.modules.get("torch")
    in_use = torch is not None and torch.cuda.is_initialized()
    return in_use and _GPU_FORK_ERROR.search(message) is not None


def _run_forked(work: Callable[[SayProgress], Any], say: SayProgress) -> Any:
    shown = watchdog.ProgressBoard()
    traces = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, in both processes
    reader, writer = multiprocessing.Pipe(duplex=False)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()  # or both would write what is waiting
    with warnings.catch_warnings():
        # Python 3.12 and JAX warn of threads, which the work leaves alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\)", RuntimeWarning)
        child = os.fork()
    if child == 0:
        faulthandler.enable(traces, all_threads=False)
        _child_main(work, shown, writer)
    writer.close()
    status = None
    try:
        last = _await_result(reader, child, shown, say)
        if isinstance(last, ChildDeath):
            return last
        _, status = os.waitpid(child, 0)
        if last is None:
            # A call of a library has no line of Python but that of whoever asked for the audit.
            where = "" if REQUEST_PREFIX in shown.place else _last_traced_line(traces)
            return ChildDeath(_describe_exit(status) + where, shown.place)
        kind, value = last
        if kind == "raised":
            raise value
        return value
    finally:
        reader.close()
        traces.close()
        if status is None:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _child_main(
    work: Callable[[SayProgress], Any], shown: watchdog.ProgressBoard, writer: Connection
) -> None:
    """Be the child: never returns."""
    code = 1
    try:
        # Ctrl-C reaches the parent, which ends us; an interrupt here is the code's own doing.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent()
        sys.argv[:] = [""]  # the code under audit need not know what runs it
        # Compiled code prints past sys.stdout, and the parent's result goes there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        watchdog.use_board(shown)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the threads it has had are in the parent only

        def send(kind: Literal["said", "raised", "done"], value: Any) -> None:
            writer.send_bytes(pickle.dumps((kind, value)))

        try:
            result = work(lambda line: send("said", line))
        except BaseException as error:
            if not isinstance(error, SimverifyError):
                error.add_note("".join(traceback.format_exception(error)))
            send("raised", _picklable_error(error))
        else:
            send("done", result)
        code = 0
    finally:
        _exit(code)


def _await_result(
    reader: Connection, child: int, shown: watchdog.ProgressBoard, say: SayProgress
) -> Any:
    """Return the child's last message, a :class:`ChildDeath` if it is stuck, None if it is gone."""
    patience = StallDetector()
    while True:
        if not reader.poll(_POLL_SECONDS):
            if how := patience.ended(shown, time.monotonic(), _processor_seconds(child)):
                return ChildDeath(how, shown.place, hung=True)
            continue
        try:
            message = reader.recv_bytes()
        except (EOFError, OSError):
            return None
        kind, value = pickle.loads(message)
        if kind != "said":
            return kind, value
        say(value)


class StallDetector:
    """Tells a call that nothing can interrupt from one that a busy machine keeps waiting."""

    def __init__(self) -> None:
        self._late: tuple[float, float | None] | None = None

    def ended(
        self, shown: watchdog.ProgressBoard, wall: float, processor: float | None
    ) -> str | None:
        """Return why the child must be ended, or None.

        ``wall``: the time now; ``processor``: the child's seconds so far, None if unknown.
        """
        wall_ends, processor_ends = shown.deadlines
        self._late = None if wall <= wall_ends else self._late or (wall, processor)
        since, had = self._late or (wall, None)
        waited = wall - since
        if waited < KILL_GRACE_SECONDS:
            return None
        late = f"no answer within {KILL_GRACE_SECONDS:g} s of wall clock after its limit"
        if processor is None or had is None:
            return late
        if processor >= processor_ends + KILL_GRACE_SECONDS:
            return "a call did not return, and nothing could interrupt it"
        if processor - had < MIN_PROCESSOR_SHARE * waited:
            return f"{late}: a call waits for something, and nothing could interrupt it"
        return None


def _processor_seconds(child: int) -> float | None:
    import psutil  # few children say nothing for so long

    try:
        times = psutil.Process(child).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


_SIGNAL_MEANINGS = {
    "SIGSEGV": " (a segmentation fault)",
    "SIGKILL": " (killed from outside, as when memory is short)",
    "SIGABRT": " (it aborted)",
}


def _describe_exit(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
        return f"the process was ended by the signal {name}{_SIGNAL_MEANINGS.get(name, '')}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"


def _last_traced_line(traces: Any) -> str:
    """`` at file:line`` of the code's innermost line in Python's last trace, if there is one."""
    traces.seek(0)
    for line in traces.read().decode(errors="replace").splitlines():
        frame = re.match(r'  File "(.+)", line (\d+)', line)
        if frame and is_user_file(frame[1]):
            return f" at {frame[1]}:{frame[2]}"
    return ""


def _picklable_error(error: BaseException) -> BaseException:
    # Some libraries, such as tblib for Dask, have an error pickled with its traceback and with
    # those that it came of, any of which may not come back. Its notes have the traceback in words.
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Say nothing of warnings and floating-point errors inside."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Put the process's own generators back on leaving."""
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    state = torch.get_rng_state() if torch else None
    try:
        with keep_mlx_state():
            yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)
        if torch:
            torch.set_rng_state(state)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep tiny tensors off a busy second core, which makes them many times slower."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    try:
        if torch:
            torch.set_num_threads(1)
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


@contextmanager
def seeded_global_generators(seed: int) -> Iterator[None]:
    """Seed the process's own generators once, and put them back; torch runs on one thread.

    Never again within a run: a generator that is seeded per call hides what calls share.
    """
    words = np.random.SeedSequence(seed).generate_state(2)
    with preserved_generators(), one_torch_thread():
        np.random.seed(words[0])  # noqa: NPY002
        random.seed(int(words[1]))
        if torch := sys.modules.get("torch"):
            torch.manual_seed(int(words[1]))
        if (mlx := loaded_mlx()) is not None:
            mlx.random.seed(int(words[1]))
        yield
