"""A sweep from its spec to its document: tasks go to workers, payloads come back and are kept.

Only this process writes. So many tasks are out at a time, and a task is made when there is room
for it, so that neither the number of shards nor that of cells needs memory.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.errors import SimverifyError
from simverify.simulators.kernels import compiled_before
from simverify.surveying.settings import LIMIT
from simverify.sweeping.audits import AuditState
from simverify.sweeping.document import document, write
from simverify.sweeping.folder import KEPT, Begun, Folder
from simverify.sweeping.lost import Died, Lost
from simverify.sweeping.progress import Progress, Say
from simverify.sweeping.spec import Spec
from simverify.sweeping.state import CellState, Result
from simverify.sweeping.tasks import AuditTask, CountTask, JudgeTask, Task
from simverify.sweeping.versions import versions
from simverify.sweeping.workers import Workers, workers_of

AHEAD = 3
"""Tasks out for each worker: one that it does, and what it does next."""

TRIES = 4
"""How often a task is handed out that its workers die of."""

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
    results: dict[int, Result] = field(default_factory=dict)
    again: deque[_Job] = field(default_factory=deque)
    out: "dict[Future[bytes], _Job]" = field(default_factory=dict)
    ended: "SimpleQueue[Future[bytes]]" = field(default_factory=SimpleQueue)

    def run(self, workers: Workers) -> None:
        """Do everything that is missing."""
        jobs = self._jobs()
        while True:
            while len(self.out) < AHEAD * workers.size:
                job = self.again.popleft() if self.again else next(jobs, None)
                if job is None:
                    break
                self._hand_out(workers, job)
            if not self.out:
                return
            try:
                future = self.ended.get(timeout=_LISTEN)
            except Empty:
                workers.check()
                continue
            self._take(workers, future)

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
            for part, shard in list(state.missing):
                first, trials = self.spec.trials(shard)
                yield _Job(state, CountTask(cell, part, shard, first, trials, own))
        for audit in self.spec.audit_cells():
            state_of_audit = AuditState(audit, self.folder)
            self._mend(state_of_audit)
            if state_of_audit.result is not None:
                self.results[audit.index] = state_of_audit.result
            else:
                yield _Job(state_of_audit, AuditTask(audit, LIMIT, own))

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
                state.cell, self.spec.blocks, alpha, self.spec.detect, state.packed(), versions()
            ),
        )

    def _hand_out(self, workers: Workers, job: _Job) -> None:
        what = {CountTask: "count", JudgeTask: "judge", AuditTask: "run"}[type(job.task)]
        future = workers.submit(f"{what} {job.task.cell.name}", job.task)
        self.out[future] = job
        future.add_done_callback(self.ended.put)

    def _take(self, workers: Workers, future: "Future[bytes]") -> None:
        job = self.out.pop(future, None)
        if job is None:
            return  # of workers that are gone
        try:
            payload = future.result()
        except (BrokenExecutor, Died, CancelledError) as error:
            self._lost(workers, job, error)
            return
        if not job.state.keep(payload):
            return
        state = job.state
        if state.result is not None:
            self.results[state.cell.index] = state.result
        elif isinstance(state, CellState) and state.counted:
            self.again.appendleft(self._judging(state))
        if not isinstance(job.task, JudgeTask):
            self.progress.done += 1
        self.progress.tick(state.cell.name)

    def _lost(self, workers: Workers, job: _Job, error: BaseException) -> None:
        """Have the task done again, and all others that went with the worker."""
        lost = [job]
        broken = isinstance(error, BrokenExecutor)
        if broken:
            lost += self.out.values()
            self.out.clear()
        self.say(f"a worker died; done again: {job.task.cell.name}")
        # Which of them the worker had is not known: those that end were innocent.
        for one in lost:
            one.tries += 1
            if one.tries >= TRIES:
                raise Lost(
                    f"workers died {TRIES} times at {one.task.cell.name}, of too little memory "
                    "perhaps: take fewer --workers or a smaller --shard"
                )
        if broken:
            workers.renew()
        self.again.extendleft(reversed(lost))


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

    Raises ``UsageError`` if the folder is in use, or of another sweep, or cannot be written;
    ``SimverifyError`` if the workers are gone. What was finished is kept.
    """
    say = progress or (lambda _line: None)
    stamp = stamped()
    folder = Folder(out)
    with folder.locked():
        folder.begin(Begun(spec, spec.files(), versions()))
        if not compiled_before():
            say("compiling kernels (only once, some 15 seconds)")
        shown = Progress(say, spec.number_of_shards, every)
        sweep = _Sweep(spec, folder, shown, say)
        size = 0
        try:
            with workers_of(executor, workers) as chosen:
                size = chosen.size
                try:
                    sweep.run(chosen)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(f"interrupted; {KEPT}") from None
        except Lost as error:
            raise SimverifyError(f"{error}; {KEPT}") from None
        run = document(spec, sweep.results)
        meta = msgspec.structs.replace(stamp(), threads=size)
        write(folder, run, meta)
    return run
