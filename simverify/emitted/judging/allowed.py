"""What the engine's rows may be off by: measured, or claimed, and what the claim hides."""

from collections.abc import Sequence
from dataclasses import dataclass

from simverify import results as doc
from simverify import stats
from simverify.battery.judgement import shown
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.judge import Ball, Judged, judge_evidence
from simverify.emitted.judging.notes import shape_of
from simverify.emitted.judging.rounding import Rounding, tried_rounding
from simverify.emitted.reading.requests import Request
from simverify.emitted.settings import OutputSettings
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_LEAST_BALL = 1e-6
"""A ball below which nobody's float32 logits stay."""

_OWN = ", which is what computing them again here shows: it takes the engine to round alike"
_CLAIMED = ", as declared, which nothing here shows"


@dataclass(frozen=True)
class Allowance:
    """The ball of a run.

    ``measured``: what computing rows again in the declared precision moved, which is the ball
    unless one is named. ``claimed``: whether a larger one was named. ``words``: where it is from.
    """

    ball: Ball
    measured: Ball
    claimed: bool
    words: str


@dataclass(frozen=True)
class Hidden:
    """What fails by the measured ball and passes by the claimed one.

    ``findings``: in words. ``shape``: the test that rounding did it, None where nothing is
    hidden or nothing can tell. ``why``: no verdict, where that is not what rounding does.
    """

    findings: tuple[str, ...] = ()
    shape: stats.TestResult | None = None
    why: str | None = None


def allowance(
    found: OutputEvidence, fine: Rounding | None, text: doc.Retokenised | None, given: float | None
) -> Allowance:
    """Return the ball: ``given``, or what was measured.

    Raises
    ------
    UsageError
        If the one given is below what was measured.
    """
    mean = found.distance / found.n
    rounding = max(mean, 0.0 if fine is None else fine.tv)
    spelt = text.changed / text.control_tokens if text else 0.0
    shown = rounding + spelt
    if given is not None and given < shown:
        raise UsageError(
            f"row tolerance is {given:g}: the same rows differ by {shown:.2g} on average when they "
            f"are computed again: name more, or none"
        )
    # Of texts twice: their share is an estimate from few tokens.
    least = min(max(rounding, _LEAST_BALL) + 2.0 * spelt, 0.999)
    reach = {} if fine is None or spelt or mean > fine.tv else fine.reach
    measured = Ball(least, reach)
    if given is None or given <= least:
        ball = measured if given is None else Ball(given, reach)
        return Allowance(ball, measured, False, _OWN)
    return Allowance(Ball(min(given, 0.999), {}), measured, True, _CLAIMED)


def hides(
    judged: Judged, allowed: Allowance, found: OutputEvidence, kept: Sequence[Request],
    pair: TransformerPair, planned: int, settings: OutputSettings,
) -> Hidden:  # fmt: skip
    """Return what only the claim lets pass."""
    if not allowed.claimed or judged.findings:
        return Hidden()
    honest = judge_evidence(found, planned, settings.alpha, allowed.measured, settings.seed)
    if not honest.findings:
        return Hidden()
    shape = shape_of(honest, found, tried_rounding(kept, pair, len(found.orders) == 3))
    if shape is not None and not shape.rejected:
        return Hidden(honest.findings, shape)
    told = "" if shape is None else f" (p = {shown(shape.log_pvalue)})"
    return Hidden(
        honest.findings, shape,
        f"it passes by the ball of {allowed.ball.tv:g} that was claimed alone, and what it hides "
        f"is not of the shape that rounding makes{told}: {honest.findings[0]}",
    )  # fmt: skip
