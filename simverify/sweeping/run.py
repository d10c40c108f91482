"""A sweep from its spec to its document: workers get tasks, and their results are stored.

Only this process writes. Tasks are handed out in loads, since each costs a worker some milliseconds
however short it is. The number of loads that are out at a time is fixed, and a task is made when
there is room for it, so neither the number of shards nor that of cells needs memory.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from simverify import results as doc
from simverify.battery.battery import start_meta
from simverify.errors import SimverifyError, UsageError
from simverify.models import check_model
from simverify.options.surveys import LIMIT
from simverify.results.reading import document_text
from simverify.simulators.kernels import compiled_before
from simverify.sweeping.spec import (
    AuditCell,
    ComparisonCell,
    SweepSpec,
    check_spec_exists,
    current_versions,
    referenced_name,
)
from simverify.sweeping.store import (
    DOCUMENT_FILE,
    META_FILE,
    RESUME_NOTE,
    SweepFolder,
    SweepManifest,
)
from simverify.sweeping.tasks import (
    AuditState,
    AuditTask,
    CellState,
    CountTask,
    JudgeTask,
    LoadFuture,
    LoadSizer,
    SweepResult,
    Task,
    WorkerDied,
    WorkersLost,
    dead_worker_record,
    load_name,
)
from simverify.sweeping.workers import WorkerPool, check_executor, open_workers

# Progress of a sweep: shards done, their rate, the time left.


Say = Callable[[str], None]


class SweepProgress:
    """Says a line every ``every`` seconds at most; by a clock that nobody sets."""

    def __init__(
        self, say: Say, total: int, every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._total, self._every, self._clock = say, total, every, clock
        self._began = self._said = clock()
        self.found = self.done = 0
        """Shards of runs before this one, and of this one."""

    def begin(self) -> None:
        """Count the time from now on: workers are there, which on a cluster may take a minute."""
        self._began = self._clock()

    def tick(self, doing: str) -> None:
        """Say how far it is, if it is time."""
        now = self._clock()
        if now - self._said >= self._every:
            self._said = now
            self._say(self.line(doing, now - self._began))

    def line(self, doing: str, seconds: float) -> str:
        """Return what is said after ``seconds``."""
        ready = self.found + self.done
        words = f"{ready:,} of {self._total:,} shards"
        if self.done and seconds > 0:
            rate = self.done / seconds
            words += f", {rate:.3g} a second, {duration_words((self._total - ready) / rate)} left"
        return f"{words}: {doing}"


def duration_words(seconds: float) -> str:
    """Return a time in words, in its largest unit that says something."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


# The document of a sweep, from the results of its cells, and its other files.


POWER = 0.9


def sweep_document(spec: SweepSpec, results: Mapping[int, SweepResult]) -> doc.SweepRun:
    """Return the document of a sweep that is done."""
    entries = [results[index] for index in sorted(results)]
    cells = tuple(one for one in entries if isinstance(one, doc.SweepCell))
    audits = tuple(one for one in entries if isinstance(one, doc.SweepAudit))
    return doc.SweepRun(
        schema_version=doc.SCHEMA_VERSION,
        blocks=spec.blocks,
        alpha=spec.alpha,
        alpha_each=spec.alpha_each,
        detect=spec.detect,
        power=POWER,
        verdict=doc.sweep_verdict(cells, audits),
        cells=cells,
        audits=audits,
        versions=current_versions(),
        reproduce=spec.command(),
    )


LOADS_PER_WORKER = 3
"""Loads out for each worker: one that it does, and what it does next."""

MAX_TRIES = 4
"""How often a task is handed out that its workers die of."""

DEATHS_BEFORE_ISOLATION = 2
"""Deaths after which a task is out with no other, so that none is blamed for another's."""

_POLL_SECONDS = 1.0
"""Seconds without a word after which workers are asked whether they are there."""

State = CellState | AuditState


@dataclass
class _PendingTask:
    """A task, the state that waits for it, and how often it was handed out."""

    state: State
    task: Task
    tries: int = 0


@dataclass
class _SweepRunner:
    """What one run of a sweep goes through."""

    spec: SweepSpec
    folder: SweepFolder
    progress: SweepProgress
    say: Say
    files: Mapping[str, str | None] = field(default_factory=dict)
    """SHA-256 of each file that the sweep names."""
    results: dict[int, SweepResult] = field(default_factory=dict)
    pace: LoadSizer = field(default_factory=LoadSizer)
    again: deque[_PendingTask] = field(default_factory=deque)
    out: dict[LoadFuture, list[_PendingTask]] = field(default_factory=dict)
    ended: "SimpleQueue[LoadFuture]" = field(default_factory=SimpleQueue)

    def run(self, workers: WorkerPool) -> None:
        """Do everything that is missing."""
        jobs = self._jobs()
        while True:
            while len(self.out) < LOADS_PER_WORKER * workers.size and not self._waits():
                load = self._load(jobs)
                if not load:
                    break
                self._hand_out(workers, load)
            if not self.out:
                return
            try:
                future = self.ended.get(timeout=_POLL_SECONDS)
            except Empty:
                workers.check()
                continue
            self._take(workers, future)

    def _waits(self) -> bool:
        """Whether a task is out, or comes next, that has to be out with no other."""
        jobs = [*itertools.chain(*self.out.values()), *itertools.islice(self.again, 1)]
        return bool(self.out) and any(job.tries >= DEATHS_BEFORE_ISOLATION for job in jobs)

    def _jobs(self) -> Iterator[_PendingTask]:
        """Yield what is missing, made when it is asked for."""
        current = current_versions()
        cells = (CellState(cell, self.spec, self.folder) for cell in self.spec.cells())
        audits = (AuditState(cell, self.folder) for cell in self.spec.audit_cells())
        states: Iterator[State] = itertools.chain(cells, audits)
        for state in states:
            if state.damaged:
                where = self.folder.cell_file(state.cell.index)
                self.say(f"{where}: {state.damaged} damaged or cut short, done again")
                state.mend()
            self.progress.found += state.finished
            file = self._file(state.cell)
            if state.result is not None:
                self.results[state.cell.index] = state.result
            elif isinstance(state, AuditState):
                yield _PendingTask(state, AuditTask(state.cell, LIMIT, current, file))
            else:
                if state.counted:
                    yield self._judging(state)
                most = partial(self.pace.shards, state.cell, self.spec.shard)
                for part, shards in state.missing(most):
                    trials = self.spec.trials(*shards)
                    task = CountTask(state.cell, part, shards, *trials, current, file)
                    yield _PendingTask(state, task)

    def _judging(self, state: CellState) -> _PendingTask:
        cell, spec, counts = state.cell, self.spec, state.packed()
        assert spec.alpha_each is not None
        numbers = spec.blocks, spec.alpha_each, spec.detect
        task = JudgeTask(cell, *numbers, counts, current_versions(), self._file(cell))
        return _PendingTask(state, task)

    def _file(self, cell: ComparisonCell | AuditCell) -> str | None:
        return self.files.get(referenced_name(cell))

    def _load(self, jobs: Iterator[_PendingTask]) -> list[_PendingTask]:
        """Return what a worker does next; a job whose worker died goes by itself."""
        load: list[_PendingTask] = []
        share = 0.0
        while job := self.again.popleft() if self.again else next(jobs, None):
            share += 1.0 if job.tries else self.pace.share(job.task)
            if load and share > 1.0:
                self.again.appendleft(job)
                break
            load.append(job)
        return load

    def _hand_out(self, workers: WorkerPool, load: list[_PendingTask]) -> None:
        future = workers.submit(tuple(job.task for job in load))
        self.out[future] = load
        future.add_done_callback(self.ended.put)

    def _take(self, workers: WorkerPool, future: LoadFuture) -> None:
        load = self.out.pop(future, None)
        if load is None:
            return  # of workers that are gone
        try:
            found = future.result()
        except (BrokenExecutor, WorkerDied, CancelledError) as error:
            self._lost(workers, load, error)
            return
        for job, (payload, seconds) in zip(load, found, strict=True):
            self.pace.learn(job.task, payload, seconds)
            self._keep(job, payload)

    def _keep(self, job: _PendingTask, payload: bytes) -> None:
        state = job.state
        if not state.keep(payload):
            return
        if state.result is not None:
            self.results[state.cell.index] = state.result
        elif isinstance(state, CellState) and state.counted:
            self.again.appendleft(self._judging(state))
        if isinstance(job.task, CountTask):
            first, end = job.task.shards
            self.progress.done += end - first
        elif isinstance(job.task, AuditTask):
            self.progress.done += 1
        self.progress.tick(state.cell.name)

    def _lost(self, workers: WorkerPool, load: list[_PendingTask], error: BaseException) -> None:
        """Have the tasks done again, and all others that went with the worker."""
        lost = list(load)
        broken = isinstance(error, BrokenExecutor)
        if broken:
            lost += itertools.chain(*self.out.values())
            self.out.clear()
        self.say(f"a worker died; done again: {load_name(tuple(job.task for job in load))}")
        # Which of them the worker had is not known: those that end were innocent.
        for one in lost:
            one.tries += 1
            if one.tries >= MAX_TRIES:
                self._give_up(one)
        if broken:
            workers.renew()
        self.again.extendleft(one for one in reversed(lost) if one.tries < MAX_TRIES)

    def _give_up(self, job: _PendingTask) -> None:
        """End what workers die of: an audit with a line, and anything else with the run."""
        if isinstance(job.task, AuditTask):
            reason = f"its worker died {MAX_TRIES} times, of it alone"
            self._keep(job, dead_worker_record(job.task, reason))
            return
        raise WorkersLost(
            f"workers died {MAX_TRIES} times at {job.task.cell.name}, of too little memory "
            "perhaps: take fewer --workers or a smaller --shard"
        )


def run_sweep(
    spec: SweepSpec,
    out: Path,
    *,
    executor: str | Executor = "processes",
    workers: int | None = None,
    progress: Say | None = None,
    every: float = 10.0,
) -> doc.SweepRun:
    """Do what is missing of a sweep in the folder ``out``, and write and return its document.

    ``every``: seconds between lines of progress.

    Raises ``UsageError`` if a model, an audit's SPEC or the executor is none, before the folder is
    made, or if it is in use, or of another sweep, or cannot be written; ``SimverifyError`` if the
    workers are gone. What was finished is kept.
    """
    say = progress or (lambda _line: None)
    stamp = start_meta()
    for name in spec.models:
        check_model(name)
    for name in spec.audits:
        check_spec_exists(name)
    check_executor(executor, workers)
    folder = SweepFolder(out)
    with folder.locked():
        files = spec.files()
        folder.begin(SweepManifest(spec, files, current_versions()))
        if not compiled_before():
            say("compiling kernels (only once, some 15 seconds)")
        shown = SweepProgress(say, spec.number_of_shards, every)
        sweep = _SweepRunner(spec, folder, shown, say, files)
        size = 0
        try:
            with open_workers(executor, workers) as chosen:
                size = chosen.size
                shown.begin()
                if chosen.dashboard:
                    say(f"the tasks of this sweep are shown at {chosen.dashboard}")
                sweep.run(chosen)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {RESUME_NOTE}") from None
        except WorkersLost as error:
            raise SimverifyError(f"{error}; {RESUME_NOTE}") from None
        run = sweep_document(spec, sweep.results)
        meta = msgspec.structs.replace(stamp(), threads=size)
        text = msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n"
        # Times and machine, which differ, stand in a file of their own.
        folder.replace(folder.path / DOCUMENT_FILE, document_text(run).encode())
        folder.replace(folder.path / META_FILE, text)
    return run


# The status of a sweep, from its folder alone.


def status_lines(out: Path) -> list[str]:
    """Return what is done of the sweep in a folder, a line each.

    Raises ``UsageError`` if it holds none.
    """
    if out.is_file():
        raise UsageError(f"{out} is a file: name the folder that --out named")
    folder = SweepFolder(out)
    note = folder.begun()
    if note is None:
        raise UsageError(f"{out} holds no sweep: name the folder that --out named")
    spec = note.spec
    judged = shards = damaged = ended = 0
    for state in (CellState(cell, spec, folder) for cell in spec.cells()):
        judged += state.result is not None
        shards += state.finished
        damaged += state.damaged
    for audit in (AuditState(one, folder) for one in spec.audit_cells()):
        ended += audit.finished
        damaged += audit.damaged
    lines = [f"shards: {shards + ended:,} of {spec.number_of_shards:,} done"]
    if cells := spec.number_of_cells:
        lines.append(f"cells: {judged:,} of {cells:,} judged")
    if audits := spec.number_of_audits:
        lines.append(f"audits: {ended:,} of {audits:,} ended")
    if damaged:
        lines.append(f"damaged records: {damaged:,}, which the next run does again")
    whole = (out / DOCUMENT_FILE).is_file()
    lines.append(f"document: {out / DOCUMENT_FILE}" if whole else "document: not yet")
    lines.append("a run is in the folder now" if folder.in_use else "no run is in the folder")
    return lines
