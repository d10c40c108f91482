"""Who does the work: threads, processes, Dask, or any executor of ``concurrent.futures``."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, parent_process
from typing import Protocol

from simverify.checks import ranges_iv
from simverify.errors import UsageError
from simverify.sweeping.tasks import Done, Load, Lost, perform

EXECUTORS = "threads, processes, dask, or dask:tcp://HOST:PORT"
MAX_WORKERS = 1024

_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Workers(Protocol):
    """What does tasks; ``size``: how many at a time.

    ``dashboard``: where a browser sees them at it; empty where nothing is shown.
    """

    size: int
    dashboard: str

    def submit(self, name: str, load: Load) -> Done:
        """Have tasks done; the future ends with their payloads, ``Died`` or ``Lost``."""
        ...

    def check(self) -> None:
        """Raise ``Lost`` if no task will ever be done."""
        ...

    def renew(self) -> None:
        """Have workers again after one died."""
        ...


def executor_iv(executor: str | Executor, workers: int | None) -> None:
    """Raise ``UsageError`` for a name that is no executor's, or a number of workers out of range.

    Whether a cluster answers at an address shows when workers are asked for.
    """
    fits = workers is None or 1 <= workers <= MAX_WORKERS
    ranges_iv([("workers", workers, fits, f"1 to {MAX_WORKERS}")])
    if isinstance(executor, Executor) or executor in (*_MAKE, "dask"):
        return
    kind, colon, address = executor.partition(":")
    if kind != "dask" or not colon:
        raise UsageError(f"executor is {executor!r}: expected {EXECUTORS}")
    if not address:
        raise UsageError(f"executor is {executor!r}, without an address: expected {EXECUTORS}")


@contextmanager
def workers_of(executor: str | Executor, workers: int | None) -> Iterator[Workers]:
    """Yield the workers that a name stands for, or an executor that was handed in.

    Raises ``UsageError`` as ``executor_iv`` does, or without what the workers need.
    """
    executor_iv(executor, workers)
    if isinstance(executor, Executor):
        yield Pool(lambda: executor, workers or _cores())
    elif executor in ("threads", "processes"):
        pool = Pool(_MAKE[executor](workers or _cores()), workers or _cores())
        try:
            yield pool
        finally:
            pool.close()
    else:
        from simverify.sweeping.cluster import dask_workers

        address = executor.removeprefix("dask").removeprefix(":")
        with dask_workers(address or None, workers) as cluster:
            yield cluster


class Pool:
    """Workers of an executor of ``concurrent.futures``; ``make`` gives it, and another one."""

    dashboard = ""

    def __init__(self, make: Callable[[], Executor], size: int) -> None:
        self.size = size
        self._make = make
        self._executor = make()

    def submit(self, name: str, load: Load) -> Done:
        """Have tasks done."""
        try:
            with _single_threaded():  # where processes begin, if they do
                return self._executor.submit(perform, load)
        except BrokenExecutor as error:
            broken: Done = Future()
            broken.set_exception(error)
            return broken

    def check(self) -> None:
        """Nothing: an executor that breaks says so by its futures."""

    def renew(self) -> None:
        """Make another executor."""
        before = self._executor
        self._executor = self._make()
        if self._executor is before:
            raise Lost("the executor that was handed in is broken")
        before.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End all; what is still counted is not waited for."""
        processes = list((getattr(self._executor, "_processes", None) or {}).values())
        for process in processes:
            with suppress(OSError, ValueError):
                process.kill()
        self._executor.shutdown(wait=bool(processes), cancel_futures=True)
        # The semaphores of processes go with the executor, and a command that was interrupted does
        # not wait for the interpreter's end, which would see to them.
        del self._executor
        gc.collect()


def _threads(size: int) -> Callable[[], Executor]:
    return lambda: ThreadPoolExecutor(size, thread_name_prefix="simverify-sweep")


def _processes(size: int) -> Callable[[], Executor]:
    # A fork would copy the threads' locks, and compiled code with them.
    return lambda: ProcessPoolExecutor(size, get_context("spawn"), initializer=leave_with_parent)


_MAKE = {"threads": _threads, "processes": _processes}


def leave_with_parent() -> None:
    """End this process as soon as the one that started it has, and leave Ctrl-C to that one."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ended = [parent.sentinel]

        def wait() -> None:
            connection.wait(ended)
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Have processes that begin here compute on one thread each."""
    missing = [name for name in _LIBRARIES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def _cores() -> int:
    from simverify.simulators.run import default_threads

    return default_threads()
