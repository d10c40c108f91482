"""Workers of a Dask cluster: one by its address, or one that is started for the run."""

import asyncio
import gc
import itertools
import logging
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from simverify.errors import UsageError
from simverify.sweeping.tasks import Died, Done, Load, Lost, perform

_CONNECT = 10
"""Seconds for a scheduler to answer."""

_BACK = 60
"""Seconds for a worker that died to be replaced."""

_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""In names of tasks: at a plain one Dask's dashboard cuts them, so that all models were one."""

_GONE = "the connection to the Dask scheduler is lost"


@contextmanager
def dask_workers(address: str | None, workers: int | None) -> Iterator["DaskWorkers"]:
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
    settings = {
        "distributed.comm.timeouts.connect": f"{_CONNECT}s",
        "distributed.client.scheduler-info-interval": "2s",
        "distributed.worker.daemon": True,
        "distributed.nanny.pre-spawn-environ": _environment(),
    }
    with dask.config.set(settings):
        try:
            local = _local(workers) if address is None else nullcontext()
            with local as cluster:
                yield from _connected(address, cluster, workers)
        finally:
            logger.setLevel(before)
            # The semaphores of workers' processes go with the cluster, as those of a pool.
            gc.collect()


def _environment() -> dict[str, Any]:
    """Return the variables that workers of our own begin with: Dask's, but one.

    That one has memory handed back to the system wherever 64 kB of it are free. Counts of a large
    vocabulary are megabytes that come and go with every shard, and each of their pages would be
    asked for anew.
    """
    import dask

    theirs = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {name: value for name, value in theirs.items() if name != "MALLOC_TRIM_THRESHOLD_"}


def _connected(address: str | None, cluster: Any, workers: int | None) -> Iterator["DaskWorkers"]:
    """Yield the workers at ``address``, or those of ``cluster``."""
    import distributed

    try:
        if address is not None:
            _scheme_iv(address)
            _answers(address)
        client = distributed.Client(  # type: ignore[no-untyped-call]
            cluster or address,
            set_as_default=False,
            timeout=_CONNECT,
            # A result need not go by way of the scheduler where all are on one machine.
            direct_to_workers=address is None,
        )
    except (OSError, ValueError, TimeoutError):
        raise UsageError(
            f"no Dask scheduler answers at {address} within {_CONNECT} s: name the address "
            "that it printed when it started, such as dask:tcp://127.0.0.1:8786"
        ) from None
    except TypeError:
        raise UsageError(
            f"{address} needs certificates: name them in Dask's configuration, at "
            "distributed.comm.tls"
        ) from None
    try:
        yield DaskWorkers(client, workers, own=address is None)
    finally:
        with suppress(Exception):  # a scheduler that is gone cannot be told
            client.close(timeout=2)  # type: ignore[no-untyped-call]


def _scheme_iv(address: str) -> None:
    """Raise ``UsageError`` for an address of a kind that this Dask does not speak."""
    from distributed.comm.registry import backends

    scheme, found, _ = address.partition("://")
    if found and scheme not in backends:
        raise UsageError(
            f"executor is 'dask:{address}': Dask has no {scheme}://, expected one of "
            + ", ".join(f"{name}://" for name in backends)
        )


def _answers(address: str) -> None:
    """Raise ``OSError`` or ``ValueError`` unless a scheduler listens at ``address``.

    A client is not made before: one that found nobody complains again when it is deleted.
    """
    from distributed.comm.core import connect
    from distributed.security import Security
    from distributed.utils import LoopRunner

    secured = Security().get_connection_args("client")  # type: ignore[no-untyped-call]

    async def ask() -> None:
        comm = await connect(address, timeout=_CONNECT, **secured)  # type: ignore[no-untyped-call]
        comm.abort()

    loop = LoopRunner()
    loop.start()  # type: ignore[no-untyped-call]
    try:
        loop.run_sync(ask)  # type: ignore[no-untyped-call]
    finally:
        loop.stop()  # type: ignore[no-untyped-call]


@contextmanager
def _local(workers: int | None) -> Iterator[Any]:
    """Yield a cluster on this machine; raises ``Lost`` if its workers cannot start.

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
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )  # fmt: skip
        try:
            try:
                cluster = made.result()
            except (OSError, RuntimeError, TimeoutError) as error:
                raise Lost(f"the workers of Dask did not start: {error}") from None
            yield cluster
        finally:
            with suppress(Exception):  # made.result() again: Ctrl-C may have come before it
                cluster = made.result()
                cluster.sync(_end, list(cluster.workers.values()), callback_timeout=2)
                cluster.close(timeout=2)


async def _end(nannies: list[Any]) -> None:
    """Kill the workers of a cluster of our own; what is still counted is not waited for."""
    await asyncio.gather(*(nanny.close(timeout=0.2) for nanny in nannies))


class DaskWorkers:
    """A client of a scheduler, which sends a task that lost its worker to another one itself."""

    def __init__(self, client: Any, workers: int | None, *, own: bool) -> None:
        self._client = client
        self._own = own
        self._seen = time.monotonic()
        threads = sum(client.nthreads().values())
        self.size = workers or max(threads, 1)
        # Without bokeh there is a page that says so.
        self.dashboard = str(client.dashboard_link) if find_spec("bokeh") else ""
        # No key of another run, or of one before on this scheduler, may be meant.
        self._run = f"{os.getpid()}-{id(self):x}"
        self._numbers = itertools.count()

    def submit(self, name: str, load: Load) -> Done:
        """Have tasks done; the dashboard shows them by their name."""
        promise: Done = Future()
        try:
            key = (name.replace("-", _HYPHEN), f"{self._run}-{next(self._numbers)}")
            future = self._client.submit(perform, load, key=key, pure=False)
        except Exception as error:
            promise.set_exception(Lost(f"{_GONE}: {type(error).__name__}"))
            return promise
        future.add_done_callback(lambda done: _settle(done, promise))
        return promise

    def check(self) -> None:
        """Raise ``Lost`` if the scheduler does not answer any more."""
        if self._client.status != "running":
            raise Lost(_GONE)
        # A cluster by its address may get workers any time, one of our own has them or is broken:
        # a scheduler whose clock is set takes its workers for dead.
        now = time.monotonic()
        if not self._own or self._has_workers():
            self._seen = now
        elif now - self._seen > _BACK:
            raise Lost(f"the Dask cluster of this run had no worker for {_BACK} s")

    def _has_workers(self) -> bool:
        try:
            return bool(self._client.nthreads())
        except Exception:  # the scheduler is going: the client's status says so next time
            return True

    def renew(self) -> None:
        """Nothing: the cluster has other workers, or gets them."""


def _settle(done: Any, promise: Done) -> None:
    """Hand what a future of Dask came to over to ours.

    A result lies with its worker until it is fetched, and is gone with it: the task is done again.
    """
    from distributed.scheduler import KilledWorker

    if done.status == "finished":
        try:
            found = done.result(timeout=_CONNECT)
        except Exception as error:
            promise.set_exception(Died(str(error)) if _running(done) else Lost(_GONE))
            return
        promise.set_result(found)
    elif done.status == "error":
        try:
            raised = done.exception(timeout=_CONNECT)
        except Exception as missing:
            raised = Died(str(missing)) if _running(done) else Lost(_GONE)
        promise.set_exception(Died(str(raised)) if isinstance(raised, KilledWorker) else raised)
    else:
        promise.set_exception(Lost(_GONE))


def _running(done: Any) -> bool:
    """Whether the scheduler of a future is there."""
    return bool(done.client.status == "running")
