"""The document of ``simverify sweep``: every cell of a grid of comparisons, and its audits."""

from typing import Literal

from simverify.results.audit import Finding
from simverify.results.common import Struct, Verdict, overall
from simverify.results.comparison import CompareResult, ModelInfo
from simverify.results.run import Judged
from simverify.results.surveys import State


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
        told = [f"{knob} {value:g}" for knob, value in knobs if value is not None]
        told.append(f"gamma {row.gamma}")
        if self.drafts is not None:
            told.append(f"drafts {self.drafts} {self.scheme}")
        return ", ".join([f"{row.verifier} on {row.model}", *told, f"seed {self.seed}"])


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
