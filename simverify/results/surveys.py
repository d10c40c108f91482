"""The documents of ``table``, ``bisect``, ``audit --self-test`` and ``sweep``."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType
from msgspec import Meta as Limits

from simverify.results.audit import Counterexample, Finding, Localisation
from simverify.results.common import (
    Certificate,
    Count,
    Judged,
    Meta,
    NonNegative,
    Positive,
    Rate,
    Run,
    Struct,
    Verdict,
    check_length,
    check_verdict,
    overall,
)
from simverify.results.compare import CompareResult, ModelInfo, result_complaints, result_verdicts
from simverify.results.registry import Kind, register_kind

State = Literal["judged", "absent", "untestable", "not loaded", "crashed", "out of time"]
"""What came of an audit in a process of its own: a verdict, or why there is none.

"absent": there is nothing to audit here. "untestable": a release that cannot be installed, or a
commit that cannot be checked out, or what it asks for cannot be installed. "not loaded": it is
here, or was asked for, and the audit could not begin. "crashed": the audit's process ended without
a result. "out of time": it was stopped at its limit.
"""


class LeastShare(Struct, frozen=True):
    """The instance on which the least part of the optimum is accepted.

    ``share``: ``expected_accepted`` over ``optimum``, which is block verification's.
    """

    instance: str
    expected_accepted: float
    optimum: float
    share: float


class EngineRow(Struct, frozen=True):
    """One engine of a table.

    ``found``: the installed package, or a checkout, with its ``version`` or its ``commit``
    ("edited" behind it where the file differs from it); null where it is absent. ``file``: below
    its package's or its repository's folder. ``tier``: what the verdict rests on; "coins" are
    bisected. ``reason``: why there is no verdict, or why it is INCONCLUSIVE; empty otherwise.
    ``exit_code``: of the audit's process, negative where a signal ended it. ``certificate``: of a
    verdict of the sampled tier. ``least``: of a PASS whose instances have an optimum. ``lines``:
    the lines of its own code that the audit names for the failure, as ``file:line``: those that
    decide the token that is wrong, else those that findings are about. ``note``: what the engine's
    adapter says of how the code was run, as what it changes; absent where it says nothing, or there
    is no verdict.
    """

    engine: str
    package: str
    function: str
    file: str
    contract: Literal["verify", "step", "tree", "draft"]
    how_to_get: str
    found: Literal["installed", "checkout"] | None
    version: str | None
    commit: str | None
    sha256: str | None
    state: State
    verdict: Verdict | None
    reason: str
    exit_code: int | None
    tier: Literal["exact", "coins", "sampled"] | None = None
    instances: int = 0
    paths: Count = 0
    tolerance: float | None = None
    max_abs_deviation: float | None = None
    certificate: Certificate | None = None
    least: LeastShare | None = None
    findings: tuple[Finding, ...] = ()
    localisation: Localisation | None = None
    lines: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    reproduce: str | None = None
    note: str | UnsetType = UNSET


class TableMeta(Meta, frozen=True, kw_only=True):
    """``row_seconds``: of each row's audit, its process included; null where there was none."""

    jobs: int
    row_seconds: tuple[float | None, ...]


class TableRun(Judged, frozen=True, kw_only=True, tag_field="command", tag="table"):
    """A ``simverify table`` run: every engine that is here, each audited in a process of its own.

    ``verdict``: FAIL if one fails; else INCONCLUSIVE if one that is here has no verdict of its own,
    or an inconclusive one; else PASS. Engines that are absent have rows and no say.
    """

    seed: int
    limit: float
    reproduce: str
    verdict: Verdict
    rows: Annotated[tuple[EngineRow, ...], Limits(min_length=1)]
    meta: TableMeta

    @property
    def exit_code(self) -> int:
        """1 on a FAIL; else 4 if one did not load or crashed; else 3 without verdict; else 0."""
        if self.verdict == "FAIL":
            return 1
        if any(row.state in ("not loaded", "crashed") for row in self.rows):
            return 4
        return 0 if self.verdict == "PASS" else 3


def table_verdict(rows: tuple[EngineRow, ...]) -> Verdict:
    """Return the verdict of a table by its rows; INCONCLUSIVE if none of them was judged."""
    verdicts = [row.verdict for row in rows if row.state != "absent"]
    if "FAIL" in verdicts:
        return "FAIL"
    return "PASS" if verdicts and all(verdict == "PASS" for verdict in verdicts) else "INCONCLUSIVE"


def _table_complaints(run: TableRun) -> Iterator[str]:
    yield from check_length(
        "meta.row_seconds", run.meta.row_seconds, len(run.rows), "one for each row"
    )
    for engine, count in Counter(row.engine for row in run.rows).items():
        if count > 1:
            yield f"rows has engine {engine!r}, which has a row already"


def _state_complaints(entry: "EngineRow | SweepAudit | Visited", where: str) -> Iterator[str]:
    """An audit has a verdict where it was judged, and there alone."""
    if (entry.verdict is None) == (entry.state == "judged"):
        yield f"{where}.verdict is {entry.verdict} with the state {entry.state}"


def _table_verdicts(run: TableRun) -> Iterator[str]:
    for i, row in enumerate(run.rows):
        where = f"rows[{i}]"
        yield from _state_complaints(row, where)
        if row.verdict == "FAIL" and not row.findings:
            yield f"{where}.verdict is FAIL and findings is empty: expected what failed"
        if row.verdict != "FAIL" and (row.findings or row.counterexample is not None):
            yield f"{where}.verdict is {row.verdict}: expected FAIL, by what was found"
        if row.verdict == "PASS" and row.reason:
            yield f"{where}.verdict is PASS: expected INCONCLUSIVE, by reason"
        rests = row.tier is not None and row.instances > 0 and row.tolerance is not None
        if row.tier == "sampled":
            rests = row.certificate is not None
        if row.verdict == "PASS" and not rests:
            yield f"{where}.verdict is PASS and rests on nothing: expected a tier and what it tried"
        if row.verdict != "PASS" and row.least is not None:
            yield f"{where}.least stands beside the verdict {row.verdict}: expected null"
        if row.state == "absent" and row.found is not None:
            yield f"{where}.state is absent and found is {row.found}: expected null"
    yield from check_verdict("verdict", run.verdict, table_verdict(run.rows), "by its rows")


register_kind(
    Kind(
        TableRun,
        "a table of engines",
        ".engines:table_report",
        check=_table_complaints,
        verdicts=_table_verdicts,
    )
)


class InstanceLaw(Struct, frozen=True):
    """What the law on one instance comes to, as an audit's document has it."""

    max_abs_deviation: float
    tv: NonNegative
    expected_accepted: float | None


class LawDifference(Struct, frozen=True):
    """An instance on which two releases have different laws; both have the same rows there."""

    instance: str
    vocab_size: Positive
    gamma: Positive
    before: InstanceLaw
    after: InstanceLaw


class Visited(Struct, frozen=True):
    """A release or commit that a bisection audited.

    ``title``: a commit's subject; empty for a release. ``reason``: why it has no verdict.
    ``changed``: whether it differs from the good one; null where that cannot be said, so that it
    was skipped.
    """

    version: str
    title: str
    state: State
    verdict: Verdict | None
    reason: str
    max_abs_deviation: float | None
    instances: int
    changed: bool | None


class BisectRun(Run, frozen=True, kw_only=True, tag_field="command", tag="bisect"):
    """A ``simverify bisect`` run.

    ``what``: which change counts: of the verdict alone, or of the law, which is the verdict, and
    the deviation and E[tau] on every instance that both were judged on. ``versions``: all from
    ``good`` to ``bad``, in order. ``outcome``: "changed": ``first`` is the first that differs, and
    ``last`` the one before it, which does not. "open": one of those after ``last`` up to ``first``
    is it, and those between could not be judged. "unchanged": ``bad`` does not differ from
    ``good``; both are null. ``differences``: of the law between ``last`` and ``first``, largest
    first. ``how``: the change in words. ``lines``: those of the code that the audit of ``first``
    names for its failure.
    """

    spec: str
    seed: int
    what: Literal["verdict", "law"]
    source: Literal["releases", "commits"]
    package: str
    good: str
    bad: str
    versions: tuple[str, ...]
    outcome: Literal["changed", "unchanged", "open"]
    last: str | None
    first: str | None
    how: str
    differences: tuple[LawDifference, ...]
    lines: tuple[str, ...]
    tried: tuple[Visited, ...]
    reproduce: str
    meta: Meta

    @property
    def exit_code(self) -> int:
        """1 if the first that differs is named, 3 if only a range is, 0 if nothing changed."""
        return {"changed": 1, "open": 3, "unchanged": 0}[self.outcome]

    @property
    def skipped(self) -> tuple[Visited, ...]:
        """Those that could not be judged."""
        return tuple(one for one in self.tried if one.changed is None)


def _bisect_complaints(run: BisectRun) -> Iterator[str]:
    order = {version: i for i, version in enumerate(run.versions)}
    if len(run.versions) < 2 or run.versions[0] != run.good or run.versions[-1] != run.bad:
        yield "versions does not begin with good and end with bad"
        return
    changed = {one.version: one.changed for one in run.tried}
    for i, one in enumerate(run.tried):
        if one.version not in order:
            yield f"tried[{i}].version is {one.version!r}, which is not in versions"
        yield from _state_complaints(one, f"tried[{i}]")
    if run.outcome == "unchanged":
        if run.first is not None or run.last is not None or run.differences:
            yield "outcome is unchanged: expected neither first nor last nor differences"
        if changed.get(run.bad) is not False:
            yield "outcome is unchanged: expected bad among tried, not changed"
    elif run.first is None or run.last is None:
        yield f"outcome is {run.outcome}: expected first and last"
    elif not (changed.get(run.first) is True and changed.get(run.last) is False):
        yield "first and last are not, in tried, one that changed and one that did not"
    elif (between := order[run.first] - order[run.last] - 1) < 0:
        yield "first does not come after last"
    elif (between == 0) != (run.outcome == "changed"):
        yield f"outcome is {run.outcome} with {between} versions between last and first"


register_kind(Kind(BisectRun, "a bisection", ".surveys:bisect_report", check=_bisect_complaints))


class Tried(Struct, frozen=True):
    """One entry of the catalogue on trial.

    ``kind``: a fault, which must be caught, or a control, which must pass. ``tier``: what
    decided; ``effort``: paths of the exact tier, calls of the sampled one, or probes; ``tv``:
    of the first failing instance, null where the exact tier did not find it.
    """

    name: str
    kind: Literal["fault", "control"]
    caught: bool
    tier: Literal["exact", "sampled", "probe"]
    effort: int
    tv: NonNegative | None

    @property
    def as_expected(self) -> bool:
        """Whether the fault was caught, or the control passed."""
        return self.caught == (self.kind == "fault")


class SelfTestRun(Judged, frozen=True, tag_field="command", tag="self-test"):
    """A ``simverify audit --self-test`` run.

    ``verdict``: PASS if every fault was caught and every control passed, else FAIL.
    ``unexpected``: the names of those that were not.
    """

    seed: int
    gamma: Positive
    vocab_size: Positive
    alpha: Rate
    detect: Rate
    verdict: Verdict
    results: tuple[Tried, ...]
    unexpected: tuple[str, ...]
    meta: Meta


def _self_test_verdicts(run: SelfTestRun) -> Iterator[str]:
    unexpected = tuple(entry.name for entry in run.results if not entry.as_expected)
    if run.unexpected != unexpected:
        named = ", ".join(unexpected) or "none"
        yield f"unexpected does not name the entries that are not as expected: {named}"
    expected: Verdict = "FAIL" if unexpected else "PASS"
    yield from check_verdict("verdict", run.verdict, expected, "by its results")


register_kind(
    Kind(SelfTestRun, "a self-test", ".surveys:self_test_report", verdicts=_self_test_verdicts)
)

# The document of ``simverify sweep``: every cell of a grid of comparisons, and its audits.


class SweepCell(Struct, frozen=True):
    """One verifier on one model with one gamma and one seed.

    ``result``: the row that ``simverify compare`` gives of this cell alone, at the same blocks and
    seed and with ``alpha_each`` for its alpha. ``drafts``, ``scheme``: so many drafts of gamma
    tokens and how they were drawn, of a sweep of rules for draft trees; null for a single draft.
    """

    seed: int
    model: ModelInfo
    result: CompareResult
    drafts: int | None = None
    scheme: str | None = None

    @property
    def name(self) -> str:
        """What tells the cell from all others of its sweep, in words."""
        row, model = self.result, self.model
        knobs = (("T", model.temperature), ("distance", model.draft_distance))
        parts = [f"{knob} {value:g}" for knob, value in knobs if value is not None]
        parts.append(f"gamma {row.gamma}")
        if self.drafts is not None:
            parts.append(f"drafts {self.drafts} {self.scheme}")
        return ", ".join([f"{row.verifier} on {row.model}", *parts, f"seed {self.seed}"])


class SweepAudit(Struct, frozen=True):
    """One audit, run by ``simverify audit`` in a process of its own.

    ``gamma``: the largest draft length that was asked for; null for the audit's own. ``reason``:
    why there is no verdict, or why it is INCONCLUSIVE; empty otherwise.
    """

    spec: str
    gamma: Positive | None
    seed: int
    state: State
    verdict: Verdict | None
    reason: str
    exit_code: int | None
    tier: Literal["exact", "sampled"] | None = None
    instances: int = 0
    paths: Count = 0
    tolerance: float | None = None
    max_abs_deviation: float | None = None
    findings: tuple[Finding, ...] = ()
    reproduce: str | None = None

    @property
    def name(self) -> str:
        """What tells the audit from all others of its sweep, in words."""
        gamma = "" if self.gamma is None else f", gamma {self.gamma}"
        return f"audit of {self.spec}{gamma}, seed {self.seed}"


class SweepVersions(Struct, frozen=True):
    """What counted and judged: a sweep does not go on with other versions.

    ``code``: SHA-256 of simverify's own sources.
    """

    simverify: str
    code: str
    python: str
    numpy: str
    numba: str
    scipy: str


class SweepRun(Judged, frozen=True, tag_field="command", tag="sweep"):
    """A ``simverify sweep`` run.

    It holds no time and no machine: the same sweep gives the same bytes on any executor.
    ``alpha``: probability that a sweep in which every verifier is right reports a fault;
    ``alpha_each``: the share of each cell, all of them alike. Audits have no part in it: each has
    its own. ``verdict``: FAIL if a cell or an audit fails; else INCONCLUSIVE if one has no verdict
    of its own, or an inconclusive one; else PASS. ``blocks``: simulated blocks of each cell.
    ``reproduce``: the command that gives this document.
    """

    blocks: Count
    alpha: Rate
    alpha_each: float | None
    detect: Rate
    power: Rate
    verdict: Verdict
    cells: tuple[SweepCell, ...]
    audits: tuple[SweepAudit, ...]
    versions: SweepVersions
    reproduce: str

    @property
    def headline(self) -> str:
        """How many cells and audits it has."""
        sizes = (("cell", len(self.cells)), ("audit", len(self.audits)))
        return ", ".join(f"{n} {word}{'s' * (n > 1)}" for word, n in sizes if n)

    @property
    def specs(self) -> tuple[str, ...]:
        """SPECs of its audits, each once."""
        return tuple(sorted({audit.spec for audit in self.audits}))


def sweep_verdict(cells: tuple[SweepCell, ...], audits: tuple[SweepAudit, ...]) -> Verdict:
    """Return the verdict of a sweep by its cells and audits, one of them at least."""
    verdicts: list[Verdict] = [cell.result.verdict for cell in cells]
    verdicts += [audit.verdict or "INCONCLUSIVE" for audit in audits]
    return overall(verdicts)


def _sweep_complaints(run: SweepRun) -> Iterator[str]:
    if not run.cells and not run.audits:
        yield "cells and audits are empty: expected one or more"
    if (run.alpha_each is None) != (not run.cells):
        yield "alpha_each and cells do not go together: expected both, or neither"
    for i, cell in enumerate(run.cells):
        where = f"cells[{i}]"
        if cell.model.name != cell.result.model:
            yield f"{where}.model.name is {cell.model.name!r}: expected {cell.result.model!r}"
        yield from result_complaints(cell.result, f"{where}.result")


def _sweep_verdicts(run: SweepRun) -> Iterator[str]:
    for i, cell in enumerate(run.cells):
        yield from result_verdicts(cell.result, run.detect, f"cells[{i}].result")
    for i, audit in enumerate(run.audits):
        where = f"audits[{i}]"
        yield from _state_complaints(audit, where)
        if (audit.verdict == "FAIL") != bool(audit.findings):
            yield f"{where}.verdict is {audit.verdict} with {len(audit.findings)} findings"
    if run.cells or run.audits:
        worst = sweep_verdict(run.cells, run.audits)
        yield from check_verdict("verdict", run.verdict, worst, "the worst of its cells and audits")


register_kind(
    Kind(
        SweepRun,
        "a sweep",
        ".surveys:sweep_report",
        check=_sweep_complaints,
        verdicts=_sweep_verdicts,
    )
)
