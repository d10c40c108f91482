"""The results of a comparison as parts of its document."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify import stats
from simverify.battery.battery import (
    TestReport,
    certificate_document,
    faults_document,
    finite_or_none,
    suspect_document,
    test_document,
)
from simverify.comparing.curves import CONFIDENCE, AcceptanceCurve, is_exact
from simverify.comparing.sampled import PIT_ORDERS, GenerationLengths, SampledCheck
from simverify.simulators.run import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

_ACCEPTANCE_WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}

CURVE_STEPS = 64
"""Steps of a curve from u = 0 to 1: finer than a picture of it shows."""

UNKNOWN_LAW_WORDS = "not judged, as the rule's own law is not known"


def lossless_document(
    check: SampledCheck, exact: doc.ExactCheck | None, detect: float
) -> doc.Lossless:
    """Return how a kernel was judged, and beside it the ``exact`` law of the rule it stands for."""
    sampled = check.lossless
    findings = list(sampled.findings)
    verdict = sampled.verdict(detect)
    if exact is not None and not is_exact(exact):
        verdict = "FAIL"
        findings.insert(
            0, f"the rule's own law differs from the target's by TV {exact.tv:.3g} ({exact.scope})"
        )
    return doc.Lossless(
        verdict=verdict,
        tier="sampled" if exact is None else "exact",
        max_abs_deviation=None if exact is None else exact.max_abs_deviation,
        tv=None if exact is None else exact.tv,
        exact=exact,
        tests=tuple(test_document(test) for test in sampled.tests),
        detectable=finite_or_none(sampled.detectable),
        deviation=sampled.deviation,
        beside=tuple(
            doc.Power(deviation=deviation, detectable=finite_or_none(size))
            for deviation, size in sampled.beside
        ),
        # A bound beside a FAIL would certify what was found to be wrong.
        certificate=certificate_document(check.certificate) if verdict == "PASS" else None,
        faults=faults_document(sampled.named),
        localisation=suspect_document(sampled.located),
        findings=tuple(findings),
        pits=pit_curves(check.counts.pits),
    )


def acceptance_document(judgement: TestReport, detect: float) -> doc.Acceptance:
    """Return whether a kernel accepts as its rule does; where that is not known, that it is not."""
    verdict = judgement.verdict(detect)
    return doc.Acceptance(
        verdict=verdict,
        words=_ACCEPTANCE_WORDS[verdict] if judgement.tests else UNKNOWN_LAW_WORDS,
        tests=tuple(test_document(test) for test in judgement.tests),
        detectable=finite_or_none(judgement.detectable),
        deviation=judgement.deviation,
        findings=judgement.findings,
    )


def after_calls(generations: GenerationLengths, gamma: int) -> tuple[doc.AfterCalls, ...]:
    """Tokens out after 1.. calls, measured, and exact where they are known."""
    counts = generations.counts
    calls = counts.lengths.shape[1]
    exact: Sequence[float | Fraction | None] = generations.exact or [None] * calls
    return tuple(
        doc.AfterCalls(
            calls=i + 1,
            exact=None if mean is None else float(mean),
            fraction=_fraction_text(mean),
            measured=measured_mean(
                int(counts.lengths[0, i]),
                int(counts.lengths[1, i]),
                counts.trials,
                low=1,
                high=(i + 1) * (gamma + 1),
            ),
        )
        for i, mean in enumerate(exact)
    )


def expected_document(curve: AcceptanceCurve) -> doc.Expected:
    """Return E[tau] of ``curve``, with its bounds."""
    return doc.Expected(
        exact=curve.expected if curve.sample is None else None,
        fraction=_fraction_text(curve.fraction),
        lower=curve.expected_lower,
        upper=curve.expected_upper,
        method=curve.method,
        confidence=CONFIDENCE if curve.sample is not None else None,
    )


def measured_tau(counts: Counts, gamma: int) -> doc.Measured:
    """Return the mean of tau over the first calls of a run."""
    values = np.arange(gamma + 1)
    total = int(counts.accepted @ values)
    return measured_mean(total, int(counts.accepted @ values**2), counts.trials, low=0, high=gamma)


def measured_mean(total: int, squares: int, n: int, *, low: int, high: int) -> doc.Measured:
    """Return a mean of ``n`` whole numbers from ``low`` to ``high`` with its interval."""
    # Integer sums keep the variance exact however many blocks there are.
    variance = (n * squares - total * total) / (n * max(n - 1, 1))
    ci_low, ci_high = stats.empirical_bernstein(
        total / n, variance, n, low=low, high=high, error=1.0 - CONFIDENCE
    )
    return doc.Measured(
        mean=total / n,
        ci_low=float(ci_low),
        ci_high=float(ci_high),
        confidence=CONFIDENCE,
        blocks=n,
    )


def _fraction_text(value: Any) -> str | None:
    return str(value) if isinstance(value, Fraction) else None


def pit_curves(pits: npt.NDArray[Any]) -> tuple[doc.PitCurve, ...]:
    """Return the curve of each order from ``pits`` (orders, positions, bins); none if empty.

    The band is that of Dvoretzky, Kiefer, Wolfowitz and Massart for n values. It holds for
    tokens of all positions together as n grows: each PIT is uniform given all before it.
    """
    curves = []
    for order, histograms in zip(PIT_ORDERS, pits, strict=True):
        counts = histograms.sum(axis=0)
        n = int(counts.sum()) if counts.size else 0
        if n == 0:
            continue
        below = np.concatenate([[0], np.cumsum(counts)])[:: counts.size // CURVE_STEPS] / n
        # A ten-millionth is less than a picture shows, and the document stays short.
        differences = np.round(below - np.linspace(0, 1, CURVE_STEPS + 1), 7)
        curves.append(
            doc.PitCurve(
                order=order,
                n=n,
                differences=tuple(differences.tolist()),
                band=math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * n)),
                confidence=CONFIDENCE,
            )
        )
    return tuple(curves)
