"""Faults on a real Dask cluster of this machine: the same bytes, and nothing lost.

One cluster serves all tests of this file. Each asserts that its fault was met.
"""

import logging
import os
import resource
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import msgspec
import pytest
from support import ready_audits
from support.killed_sweeps import KILLED
from support.small_disks import mounted

import simverify
from simverify.errors import UsageError
from simverify.sweeping import run as running
from simverify.sweeping.folder import Folder
from simverify.sweeping.records import HEAD
from simverify.sweeping.run import run_sweep
from simverify.sweeping.spec import Spec
from simverify.sweeping.state import CellState
from simverify.sweeping.status import status

distributed = pytest.importorskip("distributed")


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


def kept_of(spec, out):
    return sum(CellState(cell, spec, Folder(out)).finished for cell in spec.cells())


def when_kept(monkeypatch, number, what):
    """Have ``what`` done once, as soon as so many shards are kept; a list that says it was."""
    take, done = running._Sweep._take, []

    def taken(sweep, workers, future):
        take(sweep, workers, future)
        if sweep.progress.done >= number and not done:
            done.append(True)
            what()

    monkeypatch.setattr(running._Sweep, "_take", taken)
    return done


def interrupt():
    raise KeyboardInterrupt


def test_a_worker_that_is_killed_with_a_shard_under_way(
    ends_as_expected, cluster, dask, tmp_path, monkeypatch
):
    """It is stopped first, so that it has one for certain; its nanny starts another worker."""
    process = next(iter(cluster.workers.values())).process.process
    killed = process.pid
    stopping = when_kept(monkeypatch, 3, lambda: os.kill(killed, signal.SIGSTOP))
    killing = when_kept(monkeypatch, 5, lambda: os.kill(killed, signal.SIGKILL))
    ends_as_expected(tmp_path / "sweep", dask)
    assert stopping
    assert killing
    assert process.exitcode == -signal.SIGKILL


def test_files_that_may_not_grow(spec, ends_as_expected, dask, tmp_path):
    """The system refuses, as on a full disk, whoever runs the tests."""
    out = tmp_path / "sweep"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
        with pytest.raises(UsageError, match="cannot be written: File too large; every finished"):
            run_sweep(spec, out, executor=dask)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)
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
        assert status(out)[0].startswith("shards: ")
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
    data[HEAD + 3] ^= 4
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
    return Spec(audits=tuple(f"{asked.parent}/{name}" for name in names), audit_gamma=(1,))


def test_audits_end_with_the_same_bytes_on_any_workers(ready, dask, tmp_path, monkeypatch):
    """A right one and a wrong one, one that crashes and one that never ends; broken off once."""
    monkeypatch.setattr(running, "LIMIT", 4.0)
    spec = audits_of(ready, R.RIGHT, R.WRONG, R.CRASHES, R.HANGS)
    documents = {}
    for executor in ("threads", "processes", dask):
        out = tmp_path / executor.partition(":")[0]
        if executor != "processes":  # whose start is most of this test
            with monkeypatch.context() as patch:
                stopped = when_kept(patch, 2, interrupt)
                with pytest.raises(KeyboardInterrupt, match="every finished shard is kept"):
                    run_sweep(spec, out, executor=executor, workers=2)
            assert stopped
            assert status(out)[1] == "audits: 2 of 4 ended"
            ready.write_text("")
        run = run_sweep(spec, out, executor=executor, workers=2)
        if executor != "processes":
            assert len(ready.read_text().split()) == 2  # what had ended was not run again
        documents[executor] = (out / "sweep.json").read_bytes()
    assert len(set(documents.values())) == 1
    assert [audit.verdict for audit in run.audits] == ["PASS", "FAIL", None, None]
    assert [audit.state for audit in run.audits[2:]] == ["crashed", "out of time"]
    assert "SIGABRT" in run.audits[2].reason
    assert "not done within 4 s" in run.audits[3].reason
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
    assert ready.read_text().split().count("kills") >= running.TRIES
    assert [audit.verdict for audit in run.audits] == [None, "PASS", "FAIL"]
    assert run.audits[0].state == "crashed"
    assert "its worker died 4 times" in run.audits[0].reason
    assert len(run.cells) == 1
    assert simverify.load(tmp_path / "sweep" / "sweep.json") == run
