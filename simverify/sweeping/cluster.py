"""Workers of a Dask cluster: one by its address, or one that is started for the run."""

import itertools
import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from simverify.errors import UsageError
from simverify.sweeping.tasks import Died, Done, Load, Lost, perform

_CONNECT = 10
"""Seconds for a scheduler to answer."""

_GONE = "the connection to the Dask scheduler is lost"


@contextmanager
def dask_workers(address: str | None, workers: int | None) -> Iterator["DaskWorkers"]:
    """Yield the workers of the cluster at ``address``; None: of one on this machine.

    Raises ``UsageError`` without Dask, or if no scheduler answers.
    """
    try:
        import dask
        import distributed
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
    }
    with dask.config.set(settings):
        cluster = client = None
        try:
            if address is None:
                cluster = distributed.LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=workers, threads_per_worker=1, processes=True,
                    dashboard_address=":0", silence_logs=logging.CRITICAL,
                )  # fmt: skip
            try:
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
            yield DaskWorkers(client, workers)
        finally:
            for part in (client, cluster):
                if part is not None:
                    with suppress(Exception):  # a scheduler that is gone cannot be told
                        part.close(timeout=2)
            logger.setLevel(before)


class DaskWorkers:
    """A client of a scheduler, which sends a task that lost its worker to another one itself."""

    def __init__(self, client: Any, workers: int | None) -> None:
        self._client = client
        threads = sum(client.nthreads().values())
        self.size = workers or max(threads, 1)
        # No key of another run, or of one before on this scheduler, may be meant.
        self._run = f"{os.getpid()}-{id(self):x}"
        self._numbers = itertools.count()

    def submit(self, name: str, load: Load) -> Done:
        """Have tasks done; the dashboard shows them by their name."""
        promise: Done = Future()
        try:
            key = (name, f"{self._run}-{next(self._numbers)}")
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
