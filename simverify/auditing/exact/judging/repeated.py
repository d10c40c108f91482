"""A failure of the exact tier is repeated on plain numbers before it is told.

What a stand-in computes is this project's work, and may be wrong. So the paths of the failing
instance are run again where nothing stands in: on numbers out of each path's cell, in the own
types of the library that draws them. A path that ends otherwise there is a limit of the tool and
no fault of the code; what is left of a failure without such paths is told.

Paths say which tokens come out of which cell of the draws; how much a cell weighs is the
stand-ins' word. So the code also makes calls on its own libraries' random numbers, and a
sequential test (Wald 1945) asks which law their outputs follow: the one that was enumerated, or
the target's.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import chisquare

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import OutOfTime, TooManyPaths
from simverify.auditing.exact.instances.made import SmallModel, battery
from simverify.auditing.exact.judging.comparison import deviation
from simverify.auditing.exact.judging.examiner import SECONDS, Examiner, Judged, enumeration_of
from simverify.auditing.exact.judging.tree import Tree
from simverify.auditing.process.quiet import global_generators
from simverify.auditing.sampled.emissions import KeptDraw, Misuse, TimeUp
from simverify.auditing.sampled.run import Runner
from simverify.auditing.sampled.tables import SampledInstance
from simverify.auditing.subject import Contract, Subject
from simverify.symbolic import CannotEnumerate, Finding
from simverify.symbolic.enumeration.engine import RARE
from simverify.symbolic.enumeration.trails import Repeats, Trail, repeat_trails

CALLS = 1_024
"""Most calls: larger deviations than a TV of some hundredths are decided by then."""

_STEP = 64
_SECONDS = 10.0

ERROR = 1e-3
"""Rate at which each side of the test is wrong. A failure that is doubted by mistake is judged
by the sampled tier, which sees whatever is so large."""

_MOST = 7.0
"""Log likelihood ratio of one output at most: no single one decides."""

_CONSTANT = 1e-9
"""P-value under which outputs of code that seeds itself are not the target's."""

Law = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Free:
    """Calls of ``subject`` that nothing steers."""

    subject: Subject
    contract: Contract

    def contradict(self, model: SmallModel, emitted: Law) -> int:
        """Return after how many calls on ``model`` they follow the target and not ``emitted``.

        0 where they do not, or where it stays open. ``emitted``: float64 (V,) * length.
        """
        if model.prompt or model.earlier_calls or model.eos is not None:
            return 0
        runner = self._runner(model)
        due = runner.tables.joint(emitted.ndim)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = np.clip(np.log(emitted.ravel()) - np.log(due), -_MOST, _MOST)
        evidence = np.nan_to_num(evidence)
        bound = -math.log(ERROR)
        with suppress(KeptDraw, Misuse, TimeUp), global_generators(0):
            for calls in range(_STEP, CALLS + 1, _STEP):
                runner.run(calls)
                codes = runner.tables.codes(runner.emissions.tokens, emitted.ndim)
                ratio = evidence[codes].cumsum()
                ended = np.flatnonzero(np.abs(ratio) >= bound)
                if len(ended):
                    return int(ended[0]) + 1 if ratio[ended[0]] < 0 else 0
        return 0

    def repeats_itself(self, seen_on: SmallModel) -> bool:
        """Whether outputs of calls leave the target, on an instance with many outputs.

        One at least as large as ``seen_on``, where the code seeded itself.
        What is drawn after a constant seed is the same in every call; a fault is what then
        comes out.
        """
        plain = [m for m in battery(3, 3) if m.family == "plain" and len(m.targets) > 1]
        sizes = max(seen_on.vocab_size, 3), max(seen_on.gamma, 2)
        model = min(plain, key=lambda m: abs(m.vocab_size - sizes[0]) + abs(m.gamma - sizes[1]))
        runner = self._runner(model)
        with suppress(KeptDraw, TimeUp), global_generators(0):
            try:
                runner.run(CALLS // 2)
            except Misuse:
                return True
            length = model.gamma + 1
            due = runner.tables.joint(length) * len(runner.emissions)
            codes = runner.tables.codes(runner.emissions.tokens, length)
            seen = np.bincount(codes, minlength=due.size)
            possible = due > 0
            if seen[~possible].any():
                return True
            return bool(chisquare(seen[possible], due[possible]).pvalue < _CONSTANT)
        return False

    def _runner(self, model: SmallModel) -> Runner:
        return Runner(
            self.subject.generator_rule(), self.contract, SampledInstance(model, model.gamma),
            seed=0, number=0, pilot=False, rows=None, ends=math.inf, seconds=_SECONDS,
        )  # fmt: skip


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
    if deviates and (
        calls := free.contradict(judged.model, _array_of(comparison.emitted, judged.model))
    ):
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
