"""What a sweep costs beside its counting: planning, each shard, and what a second process gains.

    python benchmarks/sweeping.py [--quick] [--part plan|shards|processes]

Each figure is of one run of this command. What a shard costs beside its blocks is the wall clock
of a sweep on one worker less what its worker spent in the kernel and in judging, of one sweep less
that of another with fewer shards, over the shards that it has more: of short shards the same blocks
in a tenth as many, of whole ones half the blocks. Beside it stands the processor time of the
coordinator, the process that hands shards out and keeps what comes back, Dask's scheduler included;
of threads, which share a process with it, that of its own thread. Planning makes every task of a
million shards and does none.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from simverify.comparing.sampled import ModelKernel
from simverify.models import get_model
from simverify.simulators.run import Counts, model_tables
from simverify.sweeping import workers
from simverify.sweeping.run import SweepProgress, _SweepRunner, run_sweep
from simverify.sweeping.spec import DEFAULT_SHARD, SweepSpec
from simverify.sweeping.store import SweepFolder
from simverify.sweeping.tasks import CountTask, LoadSizer, Task, TaskLoad, perform_load
from simverify.sweeping.workers import WorkerPool, open_workers
from simverify.verifiers import VERIFIERS

MILLION = 10**6
TURNS = 3
SHAPES = {
    "few cells": {"seeds": 10, "shards": MILLION // 10},
    "many cells": {"seeds": MILLION, "shards": 1},
}
OVERHEAD = {
    "toy": SweepSpec(models=("toy",), verifiers=("block",), gamma=(4,)),
    "markov-64": SweepSpec(models=("markov-64",), verifiers=("block",), gamma=(8,)),
    "markov-4096": SweepSpec(models=("markov-4096",), verifiers=("block",), gamma=(8,)),
}


def spec_of(base: SweepSpec, **change: object) -> SweepSpec:
    return SweepSpec(**{name: getattr(base, name) for name in base.__struct_fields__} | change)


def plan(shape: str, scale: int) -> None:
    """Make every task of a sweep of a million shards; print seconds and megabytes."""
    sizes = SHAPES[shape]
    seeds, shards = (max(n // scale, 1) if n > 10 else n for n in sizes.values())
    spec = spec_of(OVERHEAD["toy"], seeds=tuple(range(seeds)), blocks=10 * shards, shard=10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        progress = SweepProgress(print, spec.number_of_shards, every=1e9)
        began = time.perf_counter()
        sweep = _SweepRunner(spec, SweepFolder(Path(folder)), progress, print)
        tasks = sum(end - first for job in sweep._jobs() for first, end in [job.task.shards])
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"plan, {shape}: {spec.number_of_cells:,} cells, {tasks:,} shards: {seconds:.1f} s, "
        f"{peak / 1024:.0f} MB in all, {(peak - before) / 1024:.0f} MB of them for the plan",
        flush=True,
    )


def by_processes(spec: SweepSpec, workers: int) -> tuple[float, float]:
    """Seconds of a sweep on processes, and the share of them in which the workers computed."""
    with tempfile.TemporaryDirectory() as folder:
        began, clock = time.perf_counter(), children()
        run_sweep(spec, Path(folder), executor="processes", workers=workers)
        seconds = time.perf_counter() - began
    return seconds, (children() - clock) / (workers * seconds)


def children() -> float:
    """Processor seconds of all processes that began here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def overhead(model: str, executor: str, shards: int) -> None:
    """Print what a shard costs beside its blocks, on a worker that is there and has its tables."""
    blocks = 100 * shards
    few, many = (spec_of(OVERHEAD[model], blocks=blocks, shard=shard) for shard in (1000, 100))
    tell(f"overhead a short shard, {model}, {executor}", more(executor, few, many))


def whole(model: str, executor: str, shards: int, shard: int) -> None:
    """Print what a shard costs beside its blocks, of as many as a sweep has by itself."""
    few, many = (
        spec_of(OVERHEAD[model], blocks=number * shard, shard=shard)
        for number in (shards, 2 * shards)
    )
    tell(f"overhead a whole shard, {model}, {executor}", more(executor, few, many))


def more(executor: str, few: SweepSpec, many: SweepSpec) -> list[tuple[float, float]]:
    """Seconds of the shards that ``many`` has more, each, by turns; see :func:`beside`."""
    shards = many.number_of_shards - few.number_of_shards
    clock = time.thread_time if executor == "threads" else time.process_time
    with timed(), open_workers(executor, 1) as workers:
        beside(workers, many, clock)
        turns = [[beside(workers, spec, clock) for spec in (many, few)] for _ in range(TURNS)]
    return [((a - c) / shards, (b - d) / shards) for (a, b), (c, d) in turns]


def tell(what: str, turns: list[tuple[float, float]]) -> None:
    wall, own = (sorted(1000 * one for one in each) for each in zip(*turns, strict=True))
    print(
        f"{what}: {_middle(wall)} ms; the coordinator's processor: {_middle(own)} ms; "
        f"in {TURNS} turns",
        flush=True,
    )


def _middle(ordered: list[float]) -> str:
    return f"{ordered[len(ordered) // 2]:.3f} ({ordered[0]:.3f} to {ordered[-1]:.3f})"


def beside(workers: WorkerPool, spec: SweepSpec, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a whole sweep in which its one worker neither counted nor judged.

    And the seconds of the coordinator by ``clock``, which knows its processor time.
    """
    pace = Busy()
    with tempfile.TemporaryDirectory() as folder:
        progress = SweepProgress(print, spec.number_of_shards, every=1e9)
        began, own = time.perf_counter(), clock()
        _SweepRunner(spec, SweepFolder(Path(folder)), progress, print, pace=pace).run(workers)
        return time.perf_counter() - began - pace.seconds, clock() - own


class Busy(LoadSizer):
    """A pace that adds up, besides, what tasks took."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def learn(self, task: Task, payload: bytes, seconds: float) -> None:
        """Take note of what a task took."""
        super().learn(task, payload, seconds)
        self.seconds += seconds


@contextmanager
def timed() -> Iterator[None]:
    """Have workers say what they spent in the kernel, where tasks count."""
    try:
        workers.perform_load = perform_timed
        yield
    finally:
        workers.perform_load = perform_load


def perform_timed(load: TaskLoad) -> tuple[tuple[bytes, float], ...]:
    """What a worker does, with the seconds in the kernel alone in place of a counting task's."""
    run = ModelKernel.run
    spent = 0.0

    def clocked(kernel: ModelKernel, *trials: int) -> Counts:
        nonlocal spent
        began = time.perf_counter()
        counts = run(kernel, *trials)
        spent += time.perf_counter() - began
        return counts

    found = []
    ModelKernel.run = clocked  # type: ignore[method-assign]
    try:
        for task in load:
            spent = 0.0
            [(payload, seconds)] = perform_load((task,))
            found.append((payload, spent if isinstance(task, CountTask) else seconds))
    finally:
        ModelKernel.run = run  # type: ignore[method-assign]
    return tuple(found)


def bare(first: int) -> None:
    """One shard's trials and nothing else."""
    model = get_model("markov-64")
    ModelKernel(VERIFIERS["block"], model, model_tables(model), 8, 0, 1).run(DEFAULT_SHARD, first)


def bare_wall(shards: int, workers: int) -> float:
    """Seconds of so many shards, handed to processes all at once, with no sweep around them."""
    began = time.perf_counter()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        list(pool.map(bare, range(0, shards * DEFAULT_SHARD, DEFAULT_SHARD)))
    return time.perf_counter() - began


def two_processes(blocks: int, turns: int, seeds: int) -> None:
    """Print how much sooner two processes end than one, and beside it what the machine allows."""
    spec = SweepSpec(
        models=("markov-64",), verifiers=("token", "block"), gamma=(8,),
        seeds=tuple(range(seeds)), blocks=blocks,
    )  # fmt: skip
    shards = spec.number_of_shards
    for _ in range(turns):
        one, share_of_one = by_processes(spec, 1)
        two, share_of_two = by_processes(spec, 2)
        allowed = bare_wall(shards, 1) / bare_wall(shards, 2)
        print(
            f"one process {one:.1f} s, two {two:.1f} s: {one / two:.2f} times, where bare shards "
            f"gain {allowed:.2f} times; workers computed {share_of_one:.0%} of the time of one and "
            f"{share_of_two:.0%} of two: {2 * share_of_two / share_of_one:.2f} times, were the "
            f"second core a whole one; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument("--part", choices=("plan", "shards", "processes"), help="of all three")
    parser.add_argument("--plan", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    scale = 1000 if given.quick else given.scale
    if given.plan:
        plan(given.plan, scale)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    if given.part in (None, "plan"):
        for shape in SHAPES:  # each in a process of its own, whose memory is its own
            words = [sys.executable, __file__, "--plan", shape, "--scale", str(scale)]
            subprocess.run(words, check=True)
    if given.part in (None, "shards"):
        for model in ("toy",) if given.quick else OVERHEAD:
            for executor in ("threads",) if given.quick else ("threads", "processes", "dask"):
                overhead(model, executor, 100 if given.quick else 2000)
                whole(model, executor, *((2, 1000) if given.quick else (20, DEFAULT_SHARD)))
    if given.part in (None, "processes"):
        two_processes(*((10_000, 1, 1) if given.quick else (32_000_000, 3, 6)))


if __name__ == "__main__":
    main()
