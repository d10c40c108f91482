"""Workers: threads, processes, Dask, or any executor of ``concurrent.futures``."""

import asyncio
import gc
import itertools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing import connection, get_context, parent_process
from typing import Any

from simverify.checks import check_ranges
from simverify.errors import UsageError
from simverify.sweeping.tasks import (
    LoadFuture,
    TaskLoad,
    WorkerDied,
    WorkersLost,
    load_name,
    perform_load,
)

# Dask clusters: one by its address, or one that is started for the run.


_CONNECT_SECONDS = 10
"""Seconds for a scheduler to answer."""

_REPLACEMENT_SECONDS = 60
"""Seconds for a worker that died to be replaced."""

_NON_BREAKING_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""In names of tasks: at a plain one Dask's dashboard cuts them, so that all models were one."""

_CONNECTION_LOST = "the connection to the Dask scheduler is lost"


@contextmanager
def dask_executor(address: str | None, workers: int | None) -> Iterator["DaskExecutor"]:
    """Yield the workers of the cluster at ``address``; None: of one on this machine.

    Raises ``UsageError`` without Dask, or if no scheduler answers.
    """
    try:
        import dask
        import distributed as _distributed  # noqa: F401
    except ImportError:
        raise UsageError(
            "the executor dask needs Dask, which is not installed: pip install 'simverify[cluster]'"
        ) from None
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # what matters is said in a line of our own
    # Without this variable of Dask's, memory is not handed back to the system wherever 64 kB of it
    # are free. Counts of a large vocabulary are megabytes that come and go with every shard, and
    # each of their pages would be asked for anew.
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s",
        "distributed.client.scheduler-info-interval": "2s",
        "distributed.worker.daemon": True,
        "distributed.nanny.pre-spawn-environ": environment,
    }
    with dask.config.set(settings):
        try:
            local = _local_cluster(workers) if address is None else nullcontext()
            with local as cluster:
                yield from _connect(address, cluster, workers)
        finally:
            logger.setLevel(before)
            # The semaphores of workers' processes go with the cluster, as those of a pool.
            gc.collect()


def _connect(address: str | None, cluster: Any, workers: int | None) -> Iterator["DaskExecutor"]:
    """Yield the workers at ``address``, or those of ``cluster``."""
    import distributed
    from distributed.comm.registry import backends

    try:
        if address is not None:
            scheme, separator, _ = address.partition("://")
            if separator and scheme not in backends:
                raise UsageError(
                    f"executor is 'dask:{address}': Dask has no {scheme}://, expected one of "
                    + ", ".join(f"{name}://" for name in backends)
                )
            _check_scheduler(address)
        client = distributed.Client(  # type: ignore[no-untyped-call]
            cluster or address,
            set_as_default=False,
            timeout=_CONNECT_SECONDS,
            # A result need not go by way of the scheduler where all are on one machine.
            direct_to_workers=address is None,
        )
    except (OSError, ValueError, TimeoutError):
        raise UsageError(
            f"no Dask scheduler answers at {address} within {_CONNECT_SECONDS} s: name the address "
            "that it printed when it started, such as dask:tcp://127.0.0.1:8786"
        ) from None
    except TypeError:
        raise UsageError(
            f"{address} needs certificates: name them in Dask's configuration, at "
            "distributed.comm.tls"
        ) from None
    try:
        yield DaskExecutor(client, workers, own=address is None)
    finally:
        with suppress(Exception):  # a scheduler that is gone cannot be told
            client.close(timeout=2)  # type: ignore[no-untyped-call]


def _check_scheduler(address: str) -> None:
    """Raise ``OSError`` or ``ValueError`` unless a scheduler listens at ``address``.

    A client is not made before: one that found nobody complains again when it is deleted.
    """
    from distributed.comm.core import connect
    from distributed.security import Security
    from distributed.utils import LoopRunner

    secured = Security().get_connection_args("client")  # type: ignore[no-untyped-call]

    async def ask() -> None:
        comm = await connect(address, timeout=_CONNECT_SECONDS, **secured)  # type: ignore[no-untyped-call]
        comm.abort()

    loop = LoopRunner()
    loop.start()  # type: ignore[no-untyped-call]
    try:
        loop.run_sync(ask)  # type: ignore[no-untyped-call]
    finally:
        loop.stop()  # type: ignore[no-untyped-call]


@contextmanager
def _local_cluster(workers: int | None) -> Iterator[Any]:
    """Yield a cluster on this machine; raises ``WorkersLost`` if its workers cannot start.

    Ctrl-C reaches every process of a terminal, and is for this one alone: it is made by a thread
    that never sees it, nor do the threads and processes that begin there.
    """
    from multiprocessing import resource_tracker

    import distributed

    resource_tracker.ensure_running()  # where it begins, it would let Ctrl-C through again
    deaf = partial(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGINT})
    with ThreadPoolExecutor(1, initializer=deaf) as starter:
        made: Future[Any] = starter.submit(
            distributed.LocalCluster,
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
        try:
            try:
                cluster = made.result()
            except (OSError, RuntimeError, TimeoutError) as error:
                raise WorkersLost(f"the workers of Dask did not start: {error}") from None
            yield cluster
        finally:
            with suppress(Exception):  # made.result() again: Ctrl-C may have come before it
                cluster = made.result()
                cluster.sync(_kill_nannies, list(cluster.workers.values()), callback_timeout=2)
                cluster.close(timeout=2)


async def _kill_nannies(nannies: list[Any]) -> None:
    """Kill the workers of a cluster of our own; what is still counted is not waited for."""
    await asyncio.gather(*(nanny.close(timeout=0.2) for nanny in nannies))


class DaskExecutor(Executor):
    """A client of a scheduler, which sends a task that lost its worker to another one itself."""

    def __init__(self, client: Any, workers: int | None, *, own: bool) -> None:
        self._client = client
        self._own = own
        self._seen = time.monotonic()
        self.size = workers or max(sum(client.nthreads().values()), 1)
        # Without bokeh there is a page that says so.
        self.dashboard = str(client.dashboard_link) if find_spec("bokeh") else ""
        # No key of another run, or of one before on this scheduler, may be meant.
        self._run = f"{os.getpid()}-{id(self):x}"
        self._numbers = itertools.count()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have tasks done; the dashboard shows them by the name of their load."""
        promise: Future[Any] = Future()
        try:
            name = load_name(args[0]).replace("-", _NON_BREAKING_HYPHEN)
            key = (name, f"{self._run}-{next(self._numbers)}")
            future = self._client.submit(function, *args, key=key, pure=False, **kwargs)
        except Exception as error:
            promise.set_exception(WorkersLost(f"{_CONNECTION_LOST}: {type(error).__name__}"))
            return promise
        future.add_done_callback(lambda done: _transfer_result(done, promise))
        return promise

    def check(self) -> None:
        """Raise ``WorkersLost`` if the scheduler does not answer any more."""
        if self._client.status != "running":
            raise WorkersLost(_CONNECTION_LOST)
        # A cluster by its address may get workers any time, one of our own has them or is broken:
        # a scheduler whose clock is set takes its workers for dead.
        now = time.monotonic()
        try:
            staffed = not self._own or bool(self._client.nthreads())
        except Exception:  # the scheduler is going: the client's status says so next time
            staffed = True
        if staffed:
            self._seen = now
        elif now - self._seen > _REPLACEMENT_SECONDS:
            raise WorkersLost(
                f"the Dask cluster of this run had no worker for {_REPLACEMENT_SECONDS} s"
            )


def _transfer_result(done: Any, promise: Future[Any]) -> None:
    """Hand what a future of Dask came to over to ours.

    A result lies with its worker until it is fetched, and is gone with it: the task is done again.
    """
    from distributed.scheduler import KilledWorker

    raised: BaseException = WorkersLost(_CONNECTION_LOST)
    try:
        if done.status == "finished":
            promise.set_result(done.result(timeout=_CONNECT_SECONDS))
            return
        if done.status == "error":
            raised = done.exception(timeout=_CONNECT_SECONDS)
            raised = WorkerDied(str(raised)) if isinstance(raised, KilledWorker) else raised
    except Exception as missing:
        if done.client.status == "running":
            raised = WorkerDied(str(missing))
    promise.set_exception(raised)


EXECUTOR_NAMES = "threads, processes, dask, or dask:tcp://HOST:PORT"
MAX_WORKERS = 1024

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def leave_with_parent() -> None:
    """End this process as soon as the one that started it has, and leave Ctrl-C to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ended = [parent.sentinel]

        def wait() -> None:
            connection.wait(ended)
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


_EXECUTOR_FACTORIES: dict[str, Callable[[int], Executor]] = {
    "threads": partial(ThreadPoolExecutor, thread_name_prefix="simverify-sweep"),
    # A fork would copy the threads' locks, and compiled code with them.
    "processes": partial(
        ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=leave_with_parent
    ),
}


def check_executor(executor: str | Executor, workers: int | None) -> None:
    """Raise ``UsageError`` for a name that is no executor's, or a number of workers out of range.

    Whether a cluster answers at an address shows when workers are asked for.
    """
    fits = workers is None or 1 <= workers <= MAX_WORKERS
    check_ranges([("workers", workers, fits, f"1 to {MAX_WORKERS}")])
    if isinstance(executor, Executor) or executor in (*_EXECUTOR_FACTORIES, "dask"):
        return
    kind, colon, address = executor.partition(":")
    if kind != "dask" or not colon:
        raise UsageError(f"executor is {executor!r}: expected {EXECUTOR_NAMES}")
    if not address:
        raise UsageError(f"executor is {executor!r}, without an address: expected {EXECUTOR_NAMES}")


@contextmanager
def open_workers(executor: str | Executor, workers: int | None) -> Iterator["WorkerPool"]:
    """Yield the workers that a name stands for, or an executor that was handed in.

    Raises ``UsageError`` as ``check_executor`` does, or without what the workers need.
    """
    from simverify.simulators.run import default_threads

    check_executor(executor, workers)
    size = workers or default_threads()
    if isinstance(executor, Executor):
        yield WorkerPool(lambda: executor, size)
    elif executor in _EXECUTOR_FACTORIES:
        pool = WorkerPool(partial(_EXECUTOR_FACTORIES[executor], size), size)
        try:
            yield pool
        finally:
            pool.close()
    else:
        address = executor.removeprefix("dask").removeprefix(":")
        with dask_executor(address or None, workers) as cluster:
            yield WorkerPool(lambda: cluster, cluster.size)


class WorkerPool:
    """Workers of an executor of ``concurrent.futures``; ``make`` gives it, and another one.

    ``size``: how many tasks are done at a time.
    """

    def __init__(self, make: Callable[[], Executor], size: int) -> None:
        self.size = size
        self._make = make
        self._executor = make()

    @property
    def dashboard(self) -> str:
        """Where a browser sees the tasks; empty where nothing is shown."""
        return str(getattr(self._executor, "dashboard", ""))

    def submit(self, load: TaskLoad) -> LoadFuture:
        """Have tasks done; the future ends with their payloads or with what their worker died of.

        That is ``BrokenExecutor`` where all workers are gone, and ``WorkerDied`` where one is;
        ``WorkersLost`` where no task will ever be done.
        """
        try:
            with _single_threaded_children():  # where processes begin, if they do
                return self._executor.submit(perform_load, load)
        except BrokenExecutor as error:
            broken: LoadFuture = Future()
            broken.set_exception(error)
            return broken

    def check(self) -> None:
        """Raise ``WorkersLost`` if no task will ever be done; most executors say so by futures."""
        if isinstance(self._executor, DaskExecutor):
            self._executor.check()

    def renew(self) -> None:
        """Make another executor; a cluster replaces its own workers."""
        before = self._executor
        if isinstance(before, DaskExecutor):
            return
        self._executor = self._make()
        if self._executor is before:
            raise WorkersLost("the executor that was handed in is broken")
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


@contextmanager
def _single_threaded_children() -> Iterator[None]:
    """Have processes that begin here compute on one thread each."""
    missing = [name for name in _THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
