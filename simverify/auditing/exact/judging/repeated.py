"""A failure of the exact tier is repeated on plain numbers before it is told.

What a stand-in computes is this project's work, and may be wrong. So the paths of the failing
instance are run again where nothing stands in: on numbers out of each path's cell, in the own
types of the library that draws them. A path that ends otherwise there is a limit of the tool and
no fault of the code; what is left of a failure without such paths is told.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import OutOfTime, TooManyPaths
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.comparison import deviation
from simverify.auditing.exact.judging.examiner import SECONDS, Examiner, Judged, enumeration_of
from simverify.auditing.exact.judging.freely import Free
from simverify.auditing.exact.judging.tree import Transcripts, Tree
from simverify.symbolic import CannotEnumerate, Finding
from simverify.symbolic.enumeration.engine import RARE
from simverify.symbolic.enumeration.trails import Repeats, Trail, repeat_trails

MOST_PATHS = 4_000
"""Paths of an instance that are repeated, heaviest first; the others count as not repeated."""

_ON_NUMBERS = "on plain numbers: a limit of this tool, no fault of the code"

_SEEN = 10_000
"""The instance was enumerated before: its leaves need not be looked at again."""


@dataclass(frozen=True)
class Confirmed:
    """What is left of a failure: ``failure``, or None and the ``limit`` that was met."""

    failure: Judged | None
    limit: CannotEnumerate | None = None
    note: str = ""


def confirm(examiner: Examiner, judged: Judged) -> Confirmed:
    """Repeat a failure, and return what of it repeats."""
    if examiner.subject.coin_bits is not None:
        return Confirmed(judged)  # the coins are numbers already
    repeats = _repeats(examiner, judged)
    comparison, held = judged.comparison, judged.held
    free = Free(examiner.subject, examiner.contract)
    if "constant-seed" in repeats.findings and not free.repeats_itself(judged.model):
        repeats.findings.remove("constant-seed")
    findings = _repeated(comparison.findings, repeats)
    violated = any(finding.severity == "violation" for finding in findings)
    deviates = judged.deviates and deviation(comparison) - repeats.missing > held.tolerance
    if deviates and (calls := _contradicted(free, judged)):
        deviates = False
        repeats.otherwise = (
            f"{calls} calls on random numbers follow the target instead of the law that they add "
            "up to"
        )
    if not (violated or deviates):
        return Confirmed(None, _limit(judged.model, comparison.findings, repeats))
    comparison = replace(comparison, findings=findings)
    held = replace(held, comparison=comparison)
    kept = replace(judged, comparison=comparison, violated=violated, deviates=deviates, held=held)
    return Confirmed(kept, note=_words(judged.model, repeats) if repeats.otherwise else "")


def _contradicted(free: Free, judged: Judged) -> int:
    """Return after how many calls that nothing steers a law is doubted; 0 where it is not."""
    if isinstance(judged.comparison.emitted, Transcripts):
        return free.contradict_draft(judged.model, judged.comparison)
    return free.contradict(judged.model, _array_of(judged.comparison.emitted, judged.model))


def _array_of(law: Row | Tree, model: SmallModel) -> Row:
    """Return a law as an array (V,) * (gamma + 1)."""
    if not isinstance(law, Tree):
        return law
    shape = (model.vocab_size,) * (model.gamma + 1)
    return np.array([law.mass(tokens) for tokens in np.ndindex(shape)]).reshape(shape)


def confirm_findings(
    examiner: Examiner, model: SmallModel, error: CannotEnumerate
) -> CannotEnumerate:
    """Return ``error`` with those of its findings that repeat."""
    if not any(finding.severity == "violation" for finding in error.findings):
        return error
    repeats = _rerun(examiner, model)
    if "constant-seed" in repeats.findings:
        free = Free(examiner.subject, examiner.contract)
        if not free.repeats_itself(model):
            repeats.findings.remove("constant-seed")
    findings = _repeated(error.findings, repeats)
    return CannotEnumerate(error.call, error.where, findings)


def _repeats(examiner: Examiner, judged: Judged) -> Repeats:
    enumeration = examiner.enumeration
    if not judged.comparison.complete and enumeration is not None and enumeration.stuck:
        return repeat_trails(enumeration, [enumeration.stuck], most=MOST_PATHS)
    return _rerun(examiner, judged.model)


def _rerun(examiner: Examiner, model: SmallModel) -> Repeats:
    """Enumerate ``model`` again, as far as that goes, and repeat its paths."""
    if examiner.enumeration is not None:
        examiner.enumeration.release()
    trails: list[Trail] = []
    with enumeration_of(examiner.subject, examiner.contract, _SEEN) as enumeration:
        enumeration.trails = trails
        # What was run before it stopped is there.
        with suppress(CannotEnumerate, OutOfTime, TooManyPaths):
            replace(examiner, enumeration=enumeration).compare(model, SECONDS)
        return repeat_trails(enumeration, trails, most=MOST_PATHS)


def _repeated(findings: Sequence[Finding], repeats: Repeats) -> tuple[Finding, ...]:
    """Return the findings but for violations that did not repeat."""
    return tuple(
        finding
        for finding in findings
        if finding.severity != "violation"
        or finding.kind in repeats.findings
        or repeats.masses.get(finding.kind, 0.0) > RARE
    )


def _limit(model: SmallModel, findings: Sequence[Finding], repeats: Repeats) -> CannotEnumerate:
    kinds = [finding.kind for finding in findings if finding.severity == "violation"]
    if repeats.otherwise or not kinds:
        return CannotEnumerate(_words(model, repeats))
    if kinds[0] == "constant-seed":
        return CannotEnumerate(
            "a generator seeded with a constant, or with one of a few drawn numbers, after which "
            "no output of the code leaves the target"
        )
    return CannotEnumerate(f"{kinds[0]} on {model.name}, which does not repeat {_ON_NUMBERS}")


def _words(model: SmallModel, repeats: Repeats) -> str:
    apart = repeats.paths - repeats.repeated
    what = f"{apart} of {repeats.paths} paths on {model.name}"
    how = f"; the first {repeats.otherwise}" if repeats.otherwise else ""
    return f"{what}, which {'do' if apart > 1 else 'does'} not repeat {_ON_NUMBERS}{how}"
