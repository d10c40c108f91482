"""Faults on a real Dask cluster of this machine: the same bytes, and nothing lost.

One cluster serves all tests of this file. Each asserts that its fault was met.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import msgspec
import pytest
from support import ready_audits
from support.killed_sweeps import KILLED, ended_of, interrupt, kept_of, when_kept
from support.small_disks import mounted, no_file_beyond
from support.waiting import wait_for

import simverify
from simverify.errors import UsageError
from simverify.sweeping import run as running
from simverify.sweeping.run import run_sweep, status_lines
from simverify.sweeping.spec import SweepSpec
from simverify.sweeping.store import HEADER_BYTES
from simverify.sweeping.tasks import AuditTask

distributed = pytest.importorskip("distributed")

POOL = "simverify-sweep"
"""How the threads of a sweep on threads are called."""


@pytest.fixture(scope="module")
def cluster():
    """A scheduler here, and two workers, each a process with a nanny that starts another one.

    Nannies leave variables of their workers in this process, where other tests would find them.
    """
    before = dict(os.environ)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        silence_logs=logging.CRITICAL,
    ) as found:  # fmt: skip
        yield found
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
def dask(cluster):
    return f"dask:{cluster.scheduler_address}"


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as found:
        yield found


@pytest.mark.thorough
def test_a_worker_that_is_killed_with_a_shard_under_way(
    ends_as_expected, cluster, dask, tmp_path, monkeypatch
):
    """It is stopped first, so that it has one for certain; its nanny starts another worker."""
    nanny = next(iter(cluster.workers.values()))
    process, address = nanny.process.process, nanny.worker_address
    killed = process.pid
    stopping = when_kept(monkeypatch, 3, lambda: os.kill(killed, signal.SIGSTOP))
    killing = when_kept(monkeypatch, 5, lambda: os.kill(killed, signal.SIGKILL))
    ends_as_expected(tmp_path / "sweep", dask)
    assert stopping
    assert killing
    # The sweep waits for neither: the nanny looks after both by and by.
    wait_for(lambda: process.exitcode is not None)
    assert process.exitcode == -signal.SIGKILL
    there = cluster.scheduler.workers
    wait_for(lambda: len(there) == 2 and address not in there)


@pytest.mark.thorough
def test_files_that_may_not_grow(spec, ends_as_expected, dask, tmp_path):
    """The system refuses, as on a full disk, whoever runs the tests."""
    out = tmp_path / "sweep"
    with (
        no_file_beyond(3000),
        pytest.raises(UsageError, match="cannot be written: File too large; every finished"),
    ):
        run_sweep(spec, out, executor=dask)
    kept = kept_of(spec, out)
    assert kept > 0
    assert not (out / "sweep.json").exists()
    ends_as_expected(out, dask)


def test_a_disk_that_is_full(spec, ends_as_expected, dask, tmp_path):
    with mounted(tmp_path / "disk", "64k") as disk:
        filler, out = disk / "filler", disk / "sweep"
        filler.write_bytes(bytes(44 * 1024))
        with pytest.raises(UsageError, match="No space left on device; every finished shard"):
            run_sweep(spec, out, executor=dask)
        assert not (out / "sweep.json").exists()
        filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        ends_as_expected(out, dask)


@pytest.mark.parametrize(
    ("where", "name", "number"),
    [
        ("dask", "cells/", 2),
        ("dask", "sweep.json", 1),
        ("processes", "cells/", 3),
        pytest.param("processes", "sweep.json", 1, marks=pytest.mark.slow),
        pytest.param("threads", "cells/", 1, marks=pytest.mark.slow),
        pytest.param("threads", "meta.json", 1, marks=pytest.mark.slow),
        pytest.param("threads", "spec.json", 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.thorough(by_day=1)
def test_a_sweep_that_is_killed_between_write_and_rename(
    spec, ends_as_expected, dask, tmp_path, where, name, number
):
    """What it was about to replace is as it was; the same command ends with the same bytes."""
    program, out = tmp_path / "program.py", tmp_path / "sweep"
    program.write_text(KILLED)
    executor = dask if where == "dask" else where
    words = [name, str(number), msgspec.json.encode(spec).decode(), str(out), executor]
    killed = subprocess.run([sys.executable, str(program), *words], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    (half,) = out.rglob("*.new")  # written, and not renamed
    assert name in str(half)
    target = half.with_suffix("")
    if name == "cells/":
        assert status_lines(out)[0].startswith("shards: ")
        assert kept_of(spec, out) > 0
        assert target.read_bytes() != half.read_bytes()
    else:
        assert not target.exists()
    # Workers' processes are a second run's whole cost, and who goes on does not matter.
    ends_as_expected(out, dask if where == "dask" else "threads")
    assert not list(out.rglob("*.new"))


def test_a_byte_that_changed_while_nobody_looked(
    spec, ends_as_expected, dask, tmp_path, monkeypatch
):
    out = tmp_path / "sweep"
    with monkeypatch.context() as patch:
        stopped = when_kept(patch, 6, interrupt)
        with pytest.raises(KeyboardInterrupt, match="every finished shard is kept"):
            run_sweep(spec, out, executor=dask, workers=2)
    assert stopped
    kept = kept_of(spec, out)
    file = next(path for path in sorted((out / "cells").rglob("*")) if path.is_file())
    data = bytearray(file.read_bytes())
    data[HEADER_BYTES + 3] ^= 4
    file.write_bytes(data)
    assert kept_of(spec, out) < kept
    said = ends_as_expected(out, dask)
    assert any("damaged or cut short, done again" in line for line in said)


def _clock(steps):
    """Give this worker a clock that is set at each look, by these steps; its looks are counted."""
    from simverify.sweeping import tasks

    looks = []

    def look():
        looks.append(1)
        return time.perf_counter() + steps[len(looks) % len(steps)]

    tasks.time = SimpleNamespace(perf_counter=look, looks=looks)


def _clock_back():
    from simverify.sweeping import tasks

    looks, tasks.time = len(tasks.time.looks), time
    return looks


@pytest.mark.parametrize("steps", [(0.0, 864e3), (864e3, 0.0), (-1e9, 1e9, 0.0)])
@pytest.mark.thorough
def test_clocks_that_jump(ends_as_expected, dask, client, tmp_path, monkeypatch, steps):
    """Those of workers, forth and back by days, and by two minutes the scheduler's and ours.

    By more, Dask takes its workers for dead.
    """
    now = time.time
    client.run(_clock, steps)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: now() + 120.0)
            ends_as_expected(tmp_path / "sweep", dask)
    finally:
        looks = client.run(_clock_back)
    assert sum(looks.values()) >= 20


def _have(name, value):
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


R = ready_audits
EXECUTORS = ["processes", "dask"]


@pytest.fixture
def ready(tmp_path, client, monkeypatch, unsearched):
    """Answers for audits, which workers' processes find as well as those of this one."""
    asked = ready_audits.lay_out(tmp_path / "ready", monkeypatch)
    client.run(_have, "PYTHONPATH", str(asked.parent))
    yield asked
    client.run(_have, "PYTHONPATH", None)


def audits_of(asked, *names):
    return SweepSpec(audits=tuple(f"{asked.parent}/{name}" for name in names), audit_gamma=(1,))


@pytest.fixture
def hurried(monkeypatch):
    """Have the audit that never ends out of time after a second, and no other one ever."""
    jobs = running._SweepRunner._jobs

    def limited(sweep):
        for job in jobs(sweep):
            if isinstance(job.task, AuditTask) and job.task.cell.spec.endswith(R.HANGS):
                job.task = msgspec.structs.replace(job.task, limit=1.0)
            yield job

    monkeypatch.setattr(running._SweepRunner, "_jobs", limited)


@pytest.mark.usefixtures("hurried")
@pytest.mark.thorough
def test_audits_end_with_the_same_bytes_on_any_workers(ready, dask, tmp_path, monkeypatch):
    """A right one and a wrong one, one that crashes and one that never ends; broken off once.

    On threads and on Dask what a run had begun goes on when it is broken off, and says so while
    the next run is there.
    """
    spec = audits_of(ready, R.RIGHT, R.WRONG, R.CRASHES, R.HANGS)
    documents, times = {}, {}
    for executor in ("threads", "processes", dask):
        out = tmp_path / executor.partition(":")[0]
        ended, before = set(), Counter(ready.read_text().split())
        if executor != "processes":  # whose start is most of this test
            with monkeypatch.context() as patch:
                stopped = when_kept(patch, 2, interrupt)
                with pytest.raises(KeyboardInterrupt, match="every finished shard is kept"):
                    run_sweep(spec, out, executor=executor, workers=2)
            assert stopped
            assert status_lines(out)[1] == "audits: 2 of 4 ended"
            ended = ended_of(spec, out)
            assert len(ended) == 2
        run = run_sweep(spec, out, executor=executor, workers=2)
        wait_for(lambda: not [t for t in threading.enumerate() if t.name.startswith(POOL)])
        times[executor] = Counter(ready.read_text().split()) - before
        for name in ("right", "wrong", "crashes", "hangs"):
            once = executor == "processes" or name in ended  # what had ended was not run again
            assert times[executor][name] in ((1,) if once else (1, 2)), (executor, name)
        documents[executor] = (out / "sweep.json").read_bytes()
    assert len(set(documents.values())) == 1
    assert [audit.verdict for audit in run.audits] == ["PASS", "FAIL", None, None]
    assert [audit.state for audit in run.audits[2:]] == ["crashed", "out of time"]
    assert "SIGABRT" in run.audits[2].reason
    assert "not done within 1 s" in run.audits[3].reason
    assert run.verdict == "FAIL"


@pytest.mark.slow
@pytest.mark.parametrize("where", EXECUTORS)
def test_an_audit_that_kills_its_worker_is_a_line(ready, dask, tmp_path, where):
    """And no line of the cells beside it."""
    spec = audits_of(ready, R.KILLS, R.RIGHT, R.WRONG)
    spec = msgspec.structs.replace(
        spec, models=("toy",), verifiers=("token",), gamma=(1,), blocks=500, shard=250
    )
    executor = dask if where == "dask" else where
    run = run_sweep(spec, tmp_path / "sweep", executor=executor, workers=2)
    assert ready.read_text().split().count("kills") >= running.MAX_TRIES
    assert [audit.verdict for audit in run.audits] == [None, "PASS", "FAIL"]
    assert run.audits[0].state == "crashed"
    assert "its worker died 4 times" in run.audits[0].reason
    assert len(run.cells) == 1
    assert simverify.load(tmp_path / "sweep" / "sweep.json") == run
