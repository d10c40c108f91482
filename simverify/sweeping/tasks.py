"""What workers do: count shards, judge a cell, run an audit. They write nothing.

Each function takes plain structs and returns bytes, so that a worker may be a thread, a process or
another machine. A worker of other code refuses.
"""

import time
from concurrent.futures import Future
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from simverify.errors import UsageError
from simverify.results import SweepAudit, SweepCell, SweepVersions
from simverify.results.surveys import State
from simverify.sweeping.cells import AuditCell, Cell, PartName
from simverify.sweeping.records import CountsRecord, ResultRecord, pack_counts, unpack_counts
from simverify.sweeping.versions import difference, same_file_iv, versions

if TYPE_CHECKING:
    from simverify.comparing.kernels.kernel import Kernel
    from simverify.models import Model
    from simverify.simulators.run import Counts

COST_RATIO = 0.1


class Lost(Exception):
    """Workers are gone for good, and why, in a line."""


class Died(Exception):
    """A worker died with the task that it had: others may do it."""


class CountTask(msgspec.Struct, frozen=True):
    """Shards [first, end) of a part of a cell, which are ``trials`` trials from ``trial`` on.

    ``file``: SHA-256 of the file that the cell names, here and in the other tasks.
    """

    cell: Cell
    part: PartName
    shards: tuple[int, int]
    trial: int
    trials: int
    versions: SweepVersions
    file: str | None = None


class JudgeTask(msgspec.Struct, frozen=True):
    """A cell whose trials are all counted."""

    cell: Cell
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
Load = tuple[Task, ...]
Done = Future[tuple[tuple[bytes, float], ...]]
"""What ends with the payload of each task of a load, and its seconds."""


def perform(load: Load) -> tuple[tuple[bytes, float], ...]:
    """Do tasks, one after another; return the payload of each one's record, and its seconds.

    Raises ``UsageError`` on a worker of other code, or one that has another file by a name.
    """
    own = versions()
    for task in load:
        if own != task.versions:
            raise UsageError(f"a worker has other versions: {difference(own, task.versions)}")
        same_file_iv(task.cell, task.file)
    found = []
    for task in load:
        clock = time.perf_counter()
        found.append((_perform(task), time.perf_counter() - clock))
    return tuple(found)


def _perform(task: Task) -> bytes:
    if isinstance(task, CountTask):
        return msgspec.msgpack.encode(_count(task))
    if isinstance(task, JudgeTask):
        return msgspec.msgpack.encode(_judge(task))
    return msgspec.msgpack.encode(_audit(task))


def _count(task: CountTask) -> CountsRecord:
    kernel = _kernel(task.cell)
    run = kernel.run if task.part == "run" else kernel.first_calls
    counts = pack_counts(run(task.trials, task.trial), small=False)
    return CountsRecord(task.cell.index, task.part, (task.shards,), counts)


def _kernel(cell: Cell) -> "Kernel":
    from simverify.comparing.kernels.kernel import Kernel
    from simverify.verifiers import get_verifier

    model, tables = _loaded(cell.model, cell.distance, cell.temperature)
    if cell.one_draft:
        rule = get_verifier(cell.verifier)
        return Kernel(rule, model, tables, cell.gamma, cell.seed, threads=1)
    from simverify.comparing.trees.kernel import TreeKernel
    from simverify.verifiers.trees import TREE_VERIFIERS

    assert cell.drafting is not None
    tree_rule = TREE_VERIFIERS[cell.verifier]
    return TreeKernel(tree_rule, model, tables, cell.gamma, cell.seed, 1, cell.drafting)


def _judge(task: JudgeTask) -> ResultRecord:
    from simverify.comparing.comparison import comparing, rules_of
    from simverify.comparing.model import Settings

    cell = task.cell
    counted = {part: unpack_counts(counts) for part, counts in task.counts.items()}

    def found(part: PartName, trials: int) -> "Counts":
        assert counted[part].trials == trials == task.blocks
        return counted[part]

    model, _ = _loaded(cell.model, cell.distance, cell.temperature)
    settings = Settings(
        gamma=cell.gamma, blocks=task.blocks, calls=0, eos=None, cost_ratio=COST_RATIO,
        alpha=task.alpha, detect=task.detect, seed=cell.seed, threads=1,
    )  # fmt: skip
    rules = rules_of([cell.verifier], cell.drafting, {})
    of_model = comparing(
        cell.drafting, rules, settings, task.alpha, lambda _line: None, found if counted else None
    )
    comparison = of_model(model)
    row, _speed = comparison.row(rules[cell.verifier])
    result = SweepCell(
        seed=cell.seed, model=comparison.info(cell.model), result=row, drafts=cell.drafts,
        scheme=cell.scheme,
    )  # fmt: skip
    return ResultRecord(cell.index, "cell", msgspec.json.encode(result))


def _audit(task: AuditTask) -> ResultRecord:
    from simverify.surveying.audited import Processes

    cell = task.cell
    words = [_absolute(cell.spec), "--seed", str(cell.seed)]
    if cell.gamma is not None:
        words += ["--gamma", str(cell.gamma)]
    with Processes() as processes:
        audited = processes.audit(words, task.limit)
    reason = audited.reason
    if audited.state == "out of time":
        reason = f"not done within {task.limit:g} s: lower audit_gamma, or audit it by itself"
    run = audited.run
    if run is None:
        return _without_verdict(cell, audited.state, reason, audited.exit_code)
    result = SweepAudit(
        spec=cell.spec,
        gamma=cell.gamma,
        seed=cell.seed,
        state=audited.state,
        reason=reason,
        exit_code=audited.exit_code,
        verdict=run.verdict,
        tier=run.tier,
        instances=len(run.instances),
        paths=run.paths,
        tolerance=run.tolerance,
        max_abs_deviation=max((one.max_abs_deviation for one in run.instances), default=None),
        findings=run.findings,
        reproduce=run.reproduce,
    )
    return ResultRecord(cell.index, "audit", msgspec.json.encode(result), msgspec.json.encode(run))


def _without_verdict(cell: AuditCell, state: State, reason: str, code: int | None) -> ResultRecord:
    result = SweepAudit(
        spec=cell.spec, gamma=cell.gamma, seed=cell.seed, state=state, verdict=None, reason=reason,
        exit_code=code,
    )  # fmt: skip
    return ResultRecord(cell.index, "audit", msgspec.json.encode(result))


def died(task: AuditTask, reason: str) -> bytes:
    """Return the payload of an audit that no worker came back from."""
    return msgspec.msgpack.encode(_without_verdict(task.cell, "crashed", reason, None))


def _absolute(spec: str) -> str:
    """Return a SPEC with its file by its whole path: an audit runs in a folder of its own."""
    from pathlib import Path

    file, colon, attribute = spec.rpartition(":")
    return f"{Path(file).resolve()}:{attribute}" if colon and file.endswith(".py") else spec


_LOADING = Lock()


def _loaded(name: str, distance: float | None, temperature: float | None) -> "tuple[Model, object]":
    # Threads that begin together would all make the same tables.
    with _LOADING:
        return _load(name, distance, temperature)


@lru_cache(maxsize=2)
def _load(name: str, distance: float | None, temperature: float | None) -> "tuple[Model, object]":
    from simverify.models import DEFAULT_DISTANCE, get_model
    from simverify.simulators.tables import model_tables

    model = get_model(
        name,
        distance=DEFAULT_DISTANCE if distance is None else distance,
        temperature=1.0 if temperature is None else temperature,
    )
    return model, model_tables(model)
