"""The documents of ``table``, ``bisect``, ``audit --self-test`` and ``sweep``."""

from typing import Literal

from msgspec import UNSET, UnsetType

from simverify.results.audit import Counterexample, Finding, Localisation
from simverify.results.common import Certificate, Judged, Meta, Run, Struct, Verdict, overall
from simverify.results.compare import CompareResult, ModelInfo

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
    paths: int = 0
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

    schema_version: Literal[1]
    seed: int
    limit: float
    reproduce: str
    verdict: Verdict
    rows: tuple[EngineRow, ...]
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


class InstanceLaw(Struct, frozen=True):
    """What the law on one instance comes to, as an audit's document has it."""

    max_abs_deviation: float
    tv: float
    expected_accepted: float | None


class LawDifference(Struct, frozen=True):
    """An instance on which two releases have different laws; both have the same rows there."""

    instance: str
    vocab_size: int
    gamma: int
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

    schema_version: Literal[1]
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
    tv: float | None

    @property
    def as_expected(self) -> bool:
        """Whether the fault was caught, or the control passed."""
        return self.caught == (self.kind == "fault")


class SelfTestRun(Judged, frozen=True, tag_field="command", tag="self-test"):
    """A ``simverify audit --self-test`` run.

    ``verdict``: PASS if every fault was caught and every control passed, else FAIL.
    ``unexpected``: the names of those that were not.
    """

    schema_version: Literal[1]
    seed: int
    gamma: int
    vocab_size: int
    alpha: float
    detect: float
    verdict: Verdict
    results: tuple[Tried, ...]
    unexpected: tuple[str, ...]
    meta: Meta


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
    gamma: int | None
    seed: int
    state: State
    verdict: Verdict | None
    reason: str
    exit_code: int | None
    tier: Literal["exact", "sampled"] | None = None
    instances: int = 0
    paths: int = 0
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

    schema_version: Literal[1]
    blocks: int
    alpha: float
    alpha_each: float | None
    detect: float
    power: float
    verdict: Verdict
    cells: tuple[SweepCell, ...]
    audits: tuple[SweepAudit, ...]
    versions: SweepVersions
    reproduce: str


def sweep_verdict(cells: tuple[SweepCell, ...], audits: tuple[SweepAudit, ...]) -> Verdict:
    """Return the verdict of a sweep by its cells and audits, one of them at least."""
    verdicts: list[Verdict] = [cell.result.verdict for cell in cells]
    verdicts += [audit.verdict or "INCONCLUSIVE" for audit in audits]
    return overall(verdicts)
