"""Tasks of workers: count shards, judge a cell, run an audit. Workers write nothing.

Each function takes plain structs and returns bytes, so a worker may be a thread, a process or
another machine. A worker with other code refuses.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from simverify.errors import UsageError
from simverify.options.option import words_of
from simverify.results import AuditRun, SweepAudit, SweepCell, SweepVersions
from simverify.results.surveys import State
from simverify.sweeping.spec import (
    AuditCell,
    ComparisonCell,
    PartName,
    SweepSpec,
    check_same_file,
    current_versions,
    version_difference,
)
from simverify.sweeping.store import (
    CountsRecord,
    Record,
    ResultRecord,
    SweepFolder,
    frame_payload,
    pack_counts,
    pack_record,
    unpack_counts,
    unpack_records,
)

if TYPE_CHECKING:
    from simverify.comparing.sampled import ModelKernel
    from simverify.models import Model
    from simverify.simulators.run import Counts


SWEEP_COST_RATIO = 0.1


class WorkersLost(Exception):
    """Workers are gone for good, and why, in a line."""


class WorkerDied(Exception):
    """A worker died with the task that it had: others may do it."""


class CountTask(msgspec.Struct, frozen=True):
    """Shards [first, end) of a part of a cell, which are ``trials`` trials from ``trial`` on.

    ``file``: SHA-256 of the file that the cell names, here and in the other tasks.
    """

    cell: ComparisonCell
    part: PartName
    shards: tuple[int, int]
    trial: int
    trials: int
    versions: SweepVersions
    file: str | None = None


class JudgeTask(msgspec.Struct, frozen=True):
    """A cell whose trials are all counted."""

    cell: ComparisonCell
    blocks: int
    alpha: float
    detect: float
    counts: dict[PartName, bytes]
    versions: SweepVersions
    file: str | None = None


class AuditTask(msgspec.Struct, frozen=True):
    """An audit; ``limit``: seconds of wall clock."""

    cell: AuditCell
    limit: float
    versions: SweepVersions
    file: str | None = None


Task = CountTask | JudgeTask | AuditTask
TaskLoad = tuple[Task, ...]
LoadFuture = Future[tuple[tuple[bytes, float], ...]]
"""What ends with the payload of each task of a load, and its seconds."""


def load_name(load: TaskLoad) -> str:
    """Return what a dashboard calls a load."""
    what = {CountTask: "count", JudgeTask: "judge", AuditTask: "run"}[type(load[0])]
    more = f" and {len(load) - 1} more" if load[1:] else ""
    return f"{what} {load[0].cell.name}{more}"


def perform_load(load: TaskLoad) -> tuple[tuple[bytes, float], ...]:
    """Do tasks, one after another; return the payload of each one's record, and its seconds.

    Raises ``UsageError`` on a worker of other code, or one that has another file by a name.
    """
    current = current_versions()
    for task in load:
        if current != task.versions:
            raise UsageError(
                f"a worker has other versions: {version_difference(current, task.versions)}"
            )
        check_same_file(task.cell, task.file)
    results = []
    for task in load:
        clock = time.perf_counter()
        record = _TASK_FUNCTIONS[type(task)](task)
        payload = msgspec.msgpack.encode(record)
        results.append((payload, time.perf_counter() - clock))
    return tuple(results)


def _count_shards(task: CountTask) -> CountsRecord:
    kernel = _cell_kernel(task.cell)
    run = kernel.run if task.part == "run" else kernel.first_calls
    counts = pack_counts(run(task.trials, task.trial), small=False)
    return CountsRecord(task.cell.index, task.part, (task.shards,), counts)


def _cell_kernel(cell: ComparisonCell) -> "ModelKernel":
    from simverify.comparing.sampled import ModelKernel
    from simverify.verifiers import get_verifier
    from simverify.verifiers.trees import TREE_VERIFIERS

    model, tables = _load_once(cell.model, cell.distance, cell.temperature)
    single = cell.one_draft
    return ModelKernel(
        get_verifier(cell.verifier) if single else TREE_VERIFIERS[cell.verifier],
        model,
        tables,
        cell.gamma,
        cell.seed,
        threads=1,
        drafting=None if single else cell.drafting,
    )


def _judge_cell(task: JudgeTask) -> ResultRecord:
    from simverify.comparing.comparison import resolve_rules
    from simverify.comparing.documents import ComparisonSettings
    from simverify.comparing.model import ModelComparison

    cell = task.cell
    counted = {part: unpack_counts(counts) for part, counts in task.counts.items()}

    def found(part: PartName, trials: int) -> "Counts":
        assert counted[part].trials == trials == task.blocks
        return counted[part]

    model, _ = _load_once(cell.model, cell.distance, cell.temperature)
    settings = ComparisonSettings(
        gamma=cell.gamma,
        blocks=task.blocks,
        calls=0,
        eos=None,
        cost_ratio=SWEEP_COST_RATIO,
        alpha=task.alpha,
        detect=task.detect,
        seed=cell.seed,
        threads=1,
    )
    rules = resolve_rules([cell.verifier], cell.drafting, {})
    comparison = ModelComparison(
        model, cell.drafting, rules, settings, lambda _line: None, found if counted else None
    )
    row, _speed = comparison.row(rules[cell.verifier])
    result = SweepCell(
        seed=cell.seed,
        model=comparison.info(cell.model),
        result=row,
        drafts=cell.drafts,
        scheme=cell.scheme,
    )
    return ResultRecord(cell.index, "cell", msgspec.json.encode(result))


def _run_audit(task: AuditTask) -> ResultRecord:
    from simverify.surveying.table import AuditProcesses

    cell = task.cell
    file, _, attribute = cell.spec.rpartition(":")
    # An audit runs in a folder of its own: a file goes by its whole path.
    spec = f"{Path(file).resolve()}:{attribute}" if file.endswith(".py") else cell.spec
    words = [spec, *words_of("seed", cell.seed), *words_of("gamma", cell.gamma)]
    with AuditProcesses() as processes:
        audited = processes.audit(words, task.limit)
    reason = audited.reason
    if audited.state == "out of time":
        reason = f"not done within {task.limit:g} s: lower audit_gamma, or audit it by itself"
    return _audit_record(cell, audited.state, reason, audited.exit_code, audited.run)


_TASK_FUNCTIONS: dict[type[Task], Callable[[Any], Record]] = {
    CountTask: _count_shards,
    JudgeTask: _judge_cell,
    AuditTask: _run_audit,
}


def _audit_record(
    cell: AuditCell, state: State, reason: str, exit_code: int | None, run: AuditRun | None
) -> ResultRecord:
    result = SweepAudit(
        spec=cell.spec,
        gamma=cell.gamma,
        seed=cell.seed,
        state=state,
        verdict=None,
        reason=reason,
        exit_code=exit_code,
    )
    if run is None:
        return ResultRecord(cell.index, "audit", msgspec.json.encode(result))
    result = msgspec.structs.replace(
        result,
        verdict=run.verdict,
        tier=run.tier,
        instances=len(run.instances),
        paths=run.paths,
        tolerance=run.tolerance,
        max_abs_deviation=max((one.max_abs_deviation for one in run.instances), default=None),
        findings=run.findings,
        reproduce=run.reproduce,
    )
    encoded = msgspec.json.encode(result), msgspec.json.encode(run)
    return ResultRecord(cell.index, "audit", *encoded)


def dead_worker_record(task: AuditTask, reason: str) -> bytes:
    """Return the payload of an audit that no worker came back from."""
    return msgspec.msgpack.encode(_audit_record(task.cell, "crashed", reason, None, None))


_LOAD_LOCK = Lock()


def _load_once(
    name: str, distance: float | None, temperature: float | None
) -> "tuple[Model, object]":
    # Threads that begin together would all make the same tables.
    with _LOAD_LOCK:
        return _load_model(name, distance, temperature)


@lru_cache(maxsize=2)
def _load_model(
    name: str, distance: float | None, temperature: float | None
) -> "tuple[Model, object]":
    from simverify.models import DEFAULT_DISTANCE, get_model
    from simverify.simulators.run import model_tables

    model = get_model(
        name,
        distance=DEFAULT_DISTANCE if distance is None else distance,
        temperature=1.0 if temperature is None else temperature,
    )
    return model, model_tables(model)


# The state of a cell: its counted shards, their sum, its result; and of an audit.


MAX_LOOSE_RECORDS = 64
"""Records that a cell's file gathers before they are added up into one."""

MAX_LOOSE_BYTES = 1 << 26
"""Bytes of them, likewise: records of a large vocabulary are some megabytes each."""

MAX_UNCOMPRESSED_BYTES = 1 << 20
"""Bytes of counts that stay as they came when a cell is judged; more are compressed."""

SweepResult = SweepCell | SweepAudit


class _StoredState:
    """A cell or an audit as its file has it; ``damaged``: records that cannot be used."""

    result_record: ResultRecord | None = None

    def __init__(self, index: int, folder: SweepFolder) -> None:
        self.folder = folder
        self.damaged = 0
        for record in unpack_records(folder.read(index), folder.key):
            self.damaged += record is None or record.cell != index or not self._take(record)

    def _take(self, record: Record) -> bool:
        """Take a record in; False if there is no use for it."""
        raise NotImplementedError


class CellState(_StoredState):
    """A cell of a sweep: reads its file, adds to it, and knows which shards are missing."""

    def __init__(self, cell: ComparisonCell, spec: SweepSpec, folder: SweepFolder) -> None:
        self.cell, self.spec = cell, spec
        self.done: dict[PartName, set[int]] = {part: set() for part in cell.parts}
        self.counts: dict[PartName, Counts] = {}
        self.result: SweepCell | None = None
        self._records = self._loose = 0
        super().__init__(cell.index, folder)

    def _take(self, record: Record) -> bool:
        if isinstance(record, ResultRecord):
            self.result = msgspec.json.decode(record.result, type=SweepCell)
            self.result_record = record
        elif self._add(record):
            self._loose += len(record.counts)
        else:
            return False
        self._records += 1
        return True

    def _add(self, record: CountsRecord) -> bool:
        """Add the counts of a record; False if it is not of shards that are missing."""
        done = self.done.get(record.part)
        if not all(0 <= first < end <= self.spec.shards for first, end in record.shards):
            return False
        shards = {shard for first, end in record.shards for shard in range(first, end)}
        if done is None or done & shards:
            return False
        counts = unpack_counts(record.counts)
        if counts.trials != sum(self.spec.trials(*shards)[1] for shards in record.shards):
            return False
        before = self.counts.get(record.part)
        self.counts[record.part] = counts if before is None else before + counts
        done |= shards
        return True

    def missing(self, most: Callable[[], int]) -> Iterator[tuple[PartName, tuple[int, int]]]:
        """Yield ranges [first, end) of shards that are not counted, of ``most()`` or fewer."""
        for part, done in self.done.items():
            first = 0
            while first < self.spec.shards:
                end, last = first, min(first + most(), self.spec.shards)
                while end < last and end not in done:
                    end += 1
                if end > first:
                    yield part, (first, end)
                first = max(end, first + 1)

    @property
    def counted(self) -> bool:
        """Whether all shards are."""
        return all(len(done) == self.spec.shards for done in self.done.values())

    @property
    def finished(self) -> int:
        """How many shards are counted."""
        return sum(map(len, self.done.values()))

    def keep(self, payload: bytes) -> bool:
        """Write the record of a shard, or of the result; False if there was one already."""
        if not self._take(msgspec.msgpack.decode(payload, type=Record)):
            return False
        if self._to_be_folded():
            self.mend()
        else:
            self.folder.append(self.cell.index, frame_payload(payload, self.folder.key))
        return True

    def _to_be_folded(self) -> bool:
        if self.result is None:
            return self._records > MAX_LOOSE_RECORDS or self._loose > MAX_LOOSE_BYTES
        # What stays for good is small: a record of each part, and the result.
        return self._records > len(self.done) + 1 or self._loose > MAX_UNCOMPRESSED_BYTES

    def packed(self) -> dict[PartName, bytes]:
        """Return the counts of all parts, to be judged."""
        return {part: pack_counts(counts, small=False) for part, counts in self.counts.items()}

    def mend(self) -> None:
        """Write the file anew, with records added up and without what is damaged."""
        records: list[Record] = [
            CountsRecord(
                self.cell.index,
                part,
                _contiguous_ranges(self.done[part]),
                pack_counts(counts, small=True),
            )
            for part, counts in self.counts.items()
        ]
        if self.result_record is not None:
            records.append(self.result_record)
        data = b"".join(pack_record(record, self.folder.key) for record in records)
        self.folder.replace(self.folder.cell_file(self.cell.index), data)
        self._records, self._loose = len(records), 0


class AuditState(_StoredState):
    """An audit of a sweep: reads its file, or writes it."""

    def __init__(self, cell: AuditCell, folder: SweepFolder) -> None:
        self.cell = cell
        self.result: SweepAudit | None = None
        super().__init__(cell.index, folder)

    def _take(self, record: Record) -> bool:
        if isinstance(record, CountsRecord):
            return False
        self.result = msgspec.json.decode(record.result, type=SweepAudit)
        self.result_record = record
        return True

    @property
    def finished(self) -> int:
        """1 if the audit has ended."""
        return int(self.result is not None)

    def mend(self) -> None:
        """Forget what is damaged: the audit is run again unless a whole record is there too."""
        record = self.result_record
        data = b"" if record is None else pack_record(record, self.folder.key)
        self.folder.replace(self.folder.cell_file(self.cell.index), data)

    def keep(self, payload: bytes) -> bool:
        """Write the result, and beside it the whole document."""
        record = msgspec.msgpack.decode(payload, type=ResultRecord)
        self._take(record)
        if record.document:
            text = msgspec.json.format(record.document, indent=2) + b"\n"
            self.folder.replace(self.folder.audit_file(self.cell.index), text)
        self.folder.append(self.cell.index, frame_payload(payload, self.folder.key))
        return True


def _contiguous_ranges(shards: set[int]) -> tuple[tuple[int, int], ...]:
    """Return the ranges [first, end) that make up a set of numbers."""
    ranges: list[tuple[int, int]] = []
    for shard in sorted(shards):
        if ranges and ranges[-1][1] == shard:
            ranges[-1] = ranges[-1][0], shard + 1
        else:
            ranges.append((shard, shard + 1))
    return tuple(ranges)


# The size of loads: learnt from how long finished tasks took.


MIN_LOAD_SECONDS = 0.5
"""Seconds of a load, where it is known what its tasks take."""

SECONDS_PER_BYTE = 2e-7
"""Seconds of a load for each byte of a payload, where that is more.

Counts of a large vocabulary are megabytes. To make, send and read them is to be a small part of the
load, as ``benchmarks/sweeping.py`` measures.
"""

_MIN_TASK_SECONDS = 1e-6
"""Seconds that a task takes at least."""

INITIAL_BLOCKS = 1 << 16
"""Blocks of a load where that is not known yet."""


class LoadSizer:
    """What tasks of each kind of cell took. It decides sizes of loads, and never a result."""

    def __init__(self) -> None:
        self._each: dict[object, float] = {}
        """The share of a load that a block is, or the judging of a cell."""

    def learn(self, task: Task, payload: bytes, seconds: float) -> None:
        """Take note of what a task took, and of the bytes that it came to."""
        if not isinstance(task, AuditTask):
            load = max(MIN_LOAD_SECONDS, SECONDS_PER_BYTE * len(payload))
            # A worker's clock may stand still, or be set back: what takes no time has no pace.
            self._each[_timing_key(type(task), task.cell)] = (
                max(seconds, _MIN_TASK_SECONDS) / load / _task_units(task)
            )

    def shards(self, cell: ComparisonCell, shard: int) -> int:
        """Return how many shards of ``shard`` blocks of a cell are a load, one at least."""
        each = self._each.get(_timing_key(CountTask, cell))
        blocks = INITIAL_BLOCKS if each is None else 1 / each
        return max(int(blocks // shard), 1)

    def share(self, task: Task) -> float:
        """Return which share of a load a task is; 1 for one that nothing is known of."""
        if isinstance(task, AuditTask):
            return 1.0
        each = self._each.get(_timing_key(type(task), task.cell))
        if each is not None:
            return each * _task_units(task)
        return task.trials / INITIAL_BLOCKS if isinstance(task, CountTask) else 1.0


def _timing_key(task: type, cell: ComparisonCell) -> object:
    """Return what two cells have in common that take the same time."""
    return task, msgspec.structs.replace(cell, index=0, seed=0)


def _task_units(task: CountTask | JudgeTask) -> int:
    return task.trials if isinstance(task, CountTask) else 1
