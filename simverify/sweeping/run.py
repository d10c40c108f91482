"""A sweep from its spec to its document: tasks go to workers, payloads come back and are kept.

Only this process writes. Tasks are handed out in loads, since each costs a worker some milliseconds
however short it is. So many loads are out at a time, and a task is made when there is room for it,
so that neither the number of shards nor that of cells needs memory.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.errors import SimverifyError
from simverify.models import model_iv
from simverify.options.surveys import LIMIT
from simverify.simulators.kernels import compiled_before
from simverify.sweeping.cells import AuditCell, Cell, there_iv
from simverify.sweeping.document import document, write
from simverify.sweeping.folder import KEPT, Begun, Folder
from simverify.sweeping.pace import Pace
from simverify.sweeping.progress import Progress, Say
from simverify.sweeping.spec import Spec
from simverify.sweeping.state import AuditState, CellState, Result
from simverify.sweeping.tasks import AuditTask, CountTask, Died, Done, JudgeTask, Lost, Task, died
from simverify.sweeping.versions import named_by, versions
from simverify.sweeping.workers import Workers, executor_iv, workers_of

AHEAD = 3
"""Loads out for each worker: one that it does, and what it does next."""

TRIES = 4
"""How often a task is handed out that its workers die of."""

ALONE = 2
"""Deaths after which a task is out with no other, so that none is blamed for another's."""

_LISTEN = 1.0
"""Seconds without a word after which workers are asked whether they are there."""

State = CellState | AuditState


@dataclass
class _Job:
    """A task, the state that waits for it, and how often it was handed out."""

    state: State
    task: Task
    tries: int = 0


@dataclass
class _Sweep:
    """What one run of a sweep goes through."""

    spec: Spec
    folder: Folder
    progress: Progress
    say: Say
    files: Mapping[str, str | None] = field(default_factory=dict)
    """SHA-256 of each file that the sweep names."""
    results: dict[int, Result] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    again: deque[_Job] = field(default_factory=deque)
    out: dict[Done, list[_Job]] = field(default_factory=dict)
    ended: "SimpleQueue[Done]" = field(default_factory=SimpleQueue)

    def run(self, workers: Workers) -> None:
        """Do everything that is missing."""
        jobs = self._jobs()
        while True:
            while len(self.out) < AHEAD * workers.size and not self._waits():
                load = self._load(jobs)
                if not load:
                    break
                self._hand_out(workers, load)
            if not self.out:
                return
            try:
                future = self.ended.get(timeout=_LISTEN)
            except Empty:
                workers.check()
                continue
            self._take(workers, future)

    def _waits(self) -> bool:
        """Whether a task is out, or comes next, that has to be out with no other."""
        jobs = [*itertools.chain(*self.out.values()), *itertools.islice(self.again, 1)]
        return bool(self.out) and any(job.tries >= ALONE for job in jobs)

    def _jobs(self) -> Iterator[_Job]:
        """Yield what is missing, made when it is asked for."""
        own = versions()
        for cell in self.spec.cells():
            state = CellState(cell, self.spec, self.folder)
            self._mend(state)
            if state.result is not None:
                self.results[cell.index] = state.result
                continue
            if state.counted:
                yield self._judging(state)
            for part, shards in state.missing(partial(self.pace.shards, cell, self.spec.shard)):
                trials = self.spec.trials(*shards)
                yield _Job(state, CountTask(cell, part, shards, *trials, own, self._file(cell)))
        for audit in self.spec.audit_cells():
            state_of_audit = AuditState(audit, self.folder)
            self._mend(state_of_audit)
            if state_of_audit.result is not None:
                self.results[audit.index] = state_of_audit.result
            else:
                yield _Job(state_of_audit, AuditTask(audit, LIMIT, own, self._file(audit)))

    def _mend(self, state: State) -> None:
        if state.damaged:
            where = self.folder.cell_file(state.cell.index)
            self.say(f"{where}: {state.damaged} damaged or cut short, done again")
            state.mend()
        self.progress.found += state.finished

    def _judging(self, state: CellState) -> _Job:
        alpha = self.spec.alpha_each
        assert alpha is not None
        return _Job(
            state,
            JudgeTask(
                state.cell, self.spec.blocks, alpha, self.spec.detect, state.packed(), versions(),
                self._file(state.cell),
            ),
        )  # fmt: skip

    def _file(self, cell: Cell | AuditCell) -> str | None:
        return self.files.get(named_by(cell))

    def _load(self, jobs: Iterator[_Job]) -> list[_Job]:
        """Return what a worker does next; a job whose worker died goes by itself."""
        load: list[_Job] = []
        share = 0.0
        while job := self.again.popleft() if self.again else next(jobs, None):
            share += 1.0 if job.tries else self.pace.share(job.task)
            if load and share > 1.0:
                self.again.appendleft(job)
                break
            load.append(job)
        return load

    def _hand_out(self, workers: Workers, load: list[_Job]) -> None:
        future = workers.submit(_name(load), tuple(job.task for job in load))
        self.out[future] = load
        future.add_done_callback(self.ended.put)

    def _take(self, workers: Workers, future: Done) -> None:
        load = self.out.pop(future, None)
        if load is None:
            return  # of workers that are gone
        try:
            found = future.result()
        except (BrokenExecutor, Died, CancelledError) as error:
            self._lost(workers, load, error)
            return
        for job, (payload, seconds) in zip(load, found, strict=True):
            self.pace.learn(job.task, payload, seconds)
            self._keep(job, payload)

    def _keep(self, job: _Job, payload: bytes) -> None:
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

    def _lost(self, workers: Workers, load: list[_Job], error: BaseException) -> None:
        """Have the tasks done again, and all others that went with the worker."""
        lost = list(load)
        broken = isinstance(error, BrokenExecutor)
        if broken:
            lost += itertools.chain(*self.out.values())
            self.out.clear()
        self.say(f"a worker died; done again: {_name(load)}")
        # Which of them the worker had is not known: those that end were innocent.
        for one in lost:
            one.tries += 1
            if one.tries >= TRIES:
                self._give_up(one)
        if broken:
            workers.renew()
        self.again.extendleft(one for one in reversed(lost) if one.tries < TRIES)

    def _give_up(self, job: _Job) -> None:
        """End what workers die of: an audit with a line, and anything else with the run."""
        if isinstance(job.task, AuditTask):
            self._keep(job, died(job.task, f"its worker died {TRIES} times, of it alone"))
            return
        raise Lost(
            f"workers died {TRIES} times at {job.task.cell.name}, of too little memory "
            "perhaps: take fewer --workers or a smaller --shard"
        )


def _name(load: list[_Job]) -> str:
    """Return what a dashboard calls a load."""
    task = load[0].task
    what = {CountTask: "count", JudgeTask: "judge", AuditTask: "run"}[type(task)]
    more = f" and {len(load) - 1} more" if load[1:] else ""
    return f"{what} {task.cell.name}{more}"


def run_sweep(
    spec: Spec,
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
    stamp = stamped()
    for name in spec.models:
        model_iv(name)
    for name in spec.audits:
        there_iv(name)
    executor_iv(executor, workers)
    folder = Folder(out)
    with folder.locked():
        files = spec.files()
        folder.begin(Begun(spec, files, versions()))
        if not compiled_before():
            say("compiling kernels (only once, some 15 seconds)")
        shown = Progress(say, spec.number_of_shards, every)
        sweep = _Sweep(spec, folder, shown, say, files)
        size = 0
        try:
            with workers_of(executor, workers) as chosen:
                size = chosen.size
                shown.begin()
                if chosen.dashboard:
                    say(f"the tasks of this sweep are shown at {chosen.dashboard}")
                sweep.run(chosen)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {KEPT}") from None
        except Lost as error:
            raise SimverifyError(f"{error}; {KEPT}") from None
        run = document(spec, sweep.results)
        meta = msgspec.structs.replace(stamp(), threads=size)
        write(folder, run, meta)
    return run
