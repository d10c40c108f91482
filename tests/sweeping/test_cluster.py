"""On a real Dask cluster of this machine: the same bytes, and nothing lost with a worker."""

import builtins
import gc
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import pytest

from simverify.errors import SimverifyError, UsageError
from simverify.sweeping import run
from simverify.sweeping.run import run_sweep
from simverify.sweeping.store import SweepFolder
from simverify.sweeping.tasks import CellState, WorkersLost

distributed = pytest.importorskip("distributed")
key_split = pytest.importorskip("dask.utils").key_split
SchedulerPlugin = distributed.SchedulerPlugin

LOST = r"connection to the Dask scheduler is lost.*; every finished shard is kept"

WORKER = (
    "import sys; from distributed.cli.dask_worker import main; "
    "main([sys.argv[1], '--nthreads', '1', '--no-nanny', '--no-dashboard'])"
)
SCHEDULER = (
    "from distributed.cli.dask_scheduler import main; "
    "main(['--host', '127.0.0.1', '--port', '0', '--no-dashboard', '--no-show'])"
)


@contextmanager
def cluster(folder, workers):
    """A scheduler and its workers, each a process: address, the scheduler, the workers."""
    processes = []

    def start(code, *words):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        return process

    try:
        scheduler = start(SCHEDULER)
        for line in scheduler.stderr:
            if "Scheduler at:" in line:
                address = line.split()[-1]
                break
        yield address, scheduler, [start(WORKER, address) for _ in range(workers)]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait(60)
            process.stderr.close()


class Interference:
    """Does something once, as soon as so many shards of a run are kept."""

    def __init__(self, monkeypatch, when, what):
        self.done = False
        take = run._SweepRunner._take

        def taken(sweep, workers, future):
            take(sweep, workers, future)
            if sweep.progress.done >= when and not self.done:
                self.done = True
                what()

        monkeypatch.setattr(run._SweepRunner, "_take", taken)


@pytest.mark.slow
def test_a_cluster_by_its_address_loses_a_worker_and_nothing_else(
    spec, ends_as_expected, tmp_path, monkeypatch
):
    """A worker that is stopped has a shard under way, and is killed with it."""
    with cluster(tmp_path, 2) as (address, scheduler, workers):
        stop = partial(workers[0].send_signal, signal.SIGSTOP)
        stopping = Interference(monkeypatch, 3, stop)
        killing = Interference(monkeypatch, 6, workers[0].kill)
        ends_as_expected(tmp_path / "killed", f"dask:{address}")
        assert stopping.done
        assert killing.done
        assert workers[0].wait(60) == -signal.SIGKILL

        # The scheduler goes: what is finished is kept, and another executor goes on.
        out = tmp_path / "lost"
        losing = Interference(monkeypatch, 7, scheduler.kill)
        began = time.monotonic()
        with pytest.raises(SimverifyError, match=LOST):
            run_sweep(spec, out, executor=f"dask:{address}", workers=2)
        assert losing.done
        assert time.monotonic() - began < 60
        kept = sum(CellState(cell, spec, SweepFolder(out)).finished for cell in spec.cells())
        assert kept >= 7
    ends_as_expected(out)


@pytest.fixture
def small_cluster():
    """A scheduler and two workers in this process, reached by an address all the same."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None,
        silence_logs=logging.CRITICAL,
    ) as found:  # fmt: skip
        yield found


class Names(SchedulerPlugin):
    """Keeps the names of all tasks as a dashboard shows them."""

    def __init__(self):
        self.seen = set()

    def transition(self, key, *_, **__):
        self.seen.add(key_split(key).replace("\N{NON-BREAKING HYPHEN}", "-"))


def test_a_small_cluster_ends_with_the_same_bytes(ends_as_expected, tmp_path, small_cluster):
    names = Names()
    small_cluster.scheduler.add_plugin(names)
    ends_as_expected(tmp_path / "sweep", f"dask:{small_cluster.scheduler_address}")
    cells = [
        f"{rule} on {model} gamma 2 seed 0"
        for model in ("toy", "markov-4 T 1 d 0.4")
        for rule in ("block", "greedy")
    ]
    assert names.seen == {f"{what} {cell}" for what in ("count", "judge") for cell in cells}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_cluster_for_the_run_ends_with_the_same_bytes(expected, spec, tmp_path, workers):
    out = tmp_path / "sweep"
    run_sweep(spec, out, executor="dask", workers=workers)
    assert (out / "sweep.json").read_bytes() == expected


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere"])
def test_no_scheduler_is_a_line(spec, tmp_path, monkeypatch, capfd, address):
    monkeypatch.setattr("simverify.sweeping.workers._CONNECT_SECONDS", 0.2)
    with pytest.raises(UsageError, match=f"no Dask scheduler answers at {address}"):
        run_sweep(spec, tmp_path / "sweep", executor=f"dask:{address}")
    gc.collect()  # what was half made would complain now
    assert capfd.readouterr().err == ""


def test_an_address_of_no_kind_that_dask_speaks_is_a_line(spec, tmp_path):
    with pytest.raises(UsageError, match=r"Dask has no pigeon://, expected one of .*tcp://"):
        run_sweep(spec, tmp_path / "sweep", executor="dask:pigeon://127.0.0.1:9")


def test_a_scheduler_that_wants_certificates_is_a_line(spec, tmp_path):
    with pytest.raises(UsageError, match="needs certificates: name them in Dask's configuration"):
        run_sweep(spec, tmp_path / "sweep", executor="dask:tls://127.0.0.1:9")


def test_workers_that_do_not_start_are_a_line(spec, tmp_path, monkeypatch):
    def fails(**_):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", fails)
    with pytest.raises(SimverifyError, match=r"Dask did not start: Nanny failed.*; every finished"):
        run_sweep(spec, tmp_path / "sweep", executor="dask")


@pytest.mark.slow
def test_ctrl_c_reaches_every_process_and_is_one_line(tmp_path):
    """Before, while and after the workers start: what they are in the middle of is not told."""
    words = [sys.executable, "-c", "from simverify.cli import main; main()", "sweep", "--models"]
    words += ["toy", "--gamma", "4", "--blocks", "100000000", "--workers", "2", "--executor"]
    for tenths in range(10, 70, 6):
        with subprocess.Popen(
            [*words, "dask", "--quiet", "--out", str(tmp_path / str(tenths))],
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        ) as process:  # fmt: skip
            time.sleep(tenths / 10)
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert re.fullmatch(r"simverify: interrupted; .*\n", said)


def test_without_dask_the_extra_is_named(spec, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] in ("dask", "distributed"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'simverify\[cluster\]'"):
        run_sweep(spec, tmp_path / "sweep", executor="dask")


@pytest.mark.parametrize(
    ("executor", "workers", "why"),
    [
        ("slurm", None, "executor is 'slurm': expected threads, processes, dask"),
        ("processes", 0, "workers is 0: expected 1 to 1024"),
        ("dask:", None, "executor is 'dask:', without an address: expected threads, processes"),
    ],
)
def test_an_executor_that_is_none_makes_no_folder(spec, tmp_path, executor, workers, why):
    with pytest.raises(UsageError, match=re.escape(why)):
        run_sweep(spec, tmp_path / "sweep", executor=executor, workers=workers)
    assert not (tmp_path / "sweep").exists()


def test_workers_of_our_own_keep_the_memory_of_a_shard_for_the_next_one():
    from simverify.sweeping.workers import dask_executor

    with dask_executor(None, 1) as workers:
        told = workers._client.run(lambda: dict(os.environ))
    (environment,) = told.values()
    assert "MALLOC_TRIM_THRESHOLD_" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"  # what Dask sets besides is as it was


@pytest.mark.parametrize("installed", [True, False])
def test_a_dashboard_is_named_where_there_is_one(monkeypatch, installed):
    from simverify.sweeping.workers import DaskExecutor

    monkeypatch.setattr("simverify.sweeping.workers.find_spec", lambda _name: installed or None)

    class Client:
        dashboard_link = "http://127.0.0.1:8787/status"
        nthreads = dict

    assert DaskExecutor(Client(), 1, own=True).dashboard == (
        Client.dashboard_link if installed else ""
    )


@pytest.mark.parametrize("own", [True, False])
def test_a_cluster_of_our_own_without_workers_is_a_line(monkeypatch, own):
    """One that is there already may be waiting for some."""
    from simverify.sweeping.workers import DaskExecutor

    now, there = [0.0], {"a": 1}
    monkeypatch.setattr("simverify.sweeping.workers.time.monotonic", lambda: now[0])

    class Client:
        dashboard_link, status = "", "running"

        def nthreads(self):
            return dict(there)

    workers = DaskExecutor(Client(), 1, own=own)
    for now[0] in (100.0, 200.0):
        workers.check()
    there.clear()
    now[0] = 250.0
    workers.check()
    now[0] = 261.0
    if own:
        with pytest.raises(WorkersLost, match="had no worker for 60 s"):
            workers.check()
    else:
        workers.check()
