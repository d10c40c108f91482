"""The results of a comparison as parts of its document: one row, whatever was compared."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify import stats
from simverify.arrays import Ints
from simverify.battery import battery
from simverify.comparing.curves import CONFIDENCE, AcceptanceCurve
from simverify.comparing.sampled import PIT_ORDERS, GenerationLengths
from simverify.simulators.latency import SINGLE_SEQUENCE, Load
from simverify.trees import Drafting

_ACCEPTANCE_WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}

POWER = 0.9

CURVE_STEPS = 64  # steps of a curve from u = 0 to 1: finer than a picture of it shows


@dataclass(frozen=True)
class ComparisonSettings:
    """The options of :func:`simverify.compare`; ``alpha``: the share of each row.

    ``blocks``: None for as many as the promised power needs.
    """

    gamma: int
    blocks: int | None
    calls: int
    eos: int | None
    cost_ratio: float
    alpha: float
    detect: float
    seed: int
    threads: int
    load: Load = SINGLE_SEQUENCE


def result_document(
    model: Any,
    verifier: str,
    gamma: int,
    lossless: doc.Lossless,
    acceptance: doc.Acceptance,
    optimum: doc.Optimum,
    accepted: float,
    *,
    first_call: float | None = None,
    **parts: Any,
) -> doc.CompareResult:
    """Return a row. ``accepted``: E[tau]; ``first_call``: that of first calls, if it differs."""
    best = optimum.expected_accepted
    return doc.CompareResult(
        model=model.name,
        verifier=verifier,
        gamma=gamma,
        vocab_size=model.vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        block_efficiency=accepted + 1.0,
        optimum=optimum,
        optimality=(accepted if first_call is None else first_call) / best if best > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        **{"calls": (), **parts},
    )


def run_document(
    rows: Sequence[doc.CompareResult],
    models: Sequence[doc.ModelInfo],
    *,
    drafting: Drafting | None = None,
    **parts: Any,
) -> doc.CompareRun:
    """Return the document of a comparison with these rows, models and trees."""
    trees = None
    if drafting is not None:
        trees = doc.DraftTrees(drafting.shape.parents, drafting.scheme.name)
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        power=POWER,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=tuple(models),
        drafting=trees,
        **{"blocks": None, "eos": None, **parts},
    )


def model_document(
    model: Any, bounds: doc.Bounds, given: str | None = None, **parts: Any
) -> doc.ModelInfo:
    """Return the entry of a model, or of anything else with a name and a vocabulary."""
    knobs = ["file_sha256", "draft_distance", "temperature", "corpus_sha256"]
    knobs += ["target_perplexity", "draft_perplexity"]
    return doc.ModelInfo(
        name=model.name,
        given=given,
        vocab_size=model.vocab_size,
        bounds=bounds,
        **{name: getattr(model, name, None) for name in knobs},
        **parts,
    )


def lossless_document(
    report: battery.TestReport,
    detect: float,
    tier: Literal["exact", "sampled", "output"],
    *,
    exact: doc.ExactCheck | None = None,
    wrong_law: str | None = None,
    certificate: Callable[[], stats.Certificate] | None = None,
    pits: Any = (),
) -> doc.Lossless:
    """Return how tokens were judged, and beside it the ``exact`` law of their rule.

    ``wrong_law``: the finding where that law is not the target's. ``certificate``: of a PASS.
    """
    findings = report.findings if wrong_law is None else (wrong_law, *report.findings)
    verdict = replace(report, findings=findings).verdict(detect)
    return doc.Lossless(
        verdict=verdict,
        tier=tier,
        max_abs_deviation=None if exact is None else exact.max_abs_deviation,
        tv=None if exact is None else exact.tv,
        exact=exact,
        tests=tuple(map(battery.test_document, report.tests)),
        detectable=battery.finite_or_none(report.detectable),
        deviation=report.deviation,
        beside=tuple(
            doc.Power(deviation=deviation, detectable=battery.finite_or_none(size))
            for deviation, size in report.beside
        ),
        # A bound beside a FAIL would certify what was found to be wrong.
        certificate=battery.certificate_document(certificate())
        if certificate is not None and verdict == "PASS"
        else None,
        faults=battery.faults_document(report.named),
        localisation=battery.suspect_document(report.located),
        findings=findings,
        pits=pit_curves(pits),
    )


def acceptance_document(
    report: battery.TestReport,
    detect: float,
    unjudged: str = "not judged, as the rule's exact distribution is not known",
) -> doc.Acceptance:
    """Return whether tokens are accepted as the rule does; ``unjudged``: words without tests."""
    verdict = report.verdict(detect)
    return doc.Acceptance(
        verdict=verdict,
        words=_ACCEPTANCE_WORDS[verdict] if report.tests else unjudged,
        tests=tuple(map(battery.test_document, report.tests)),
        detectable=battery.finite_or_none(report.detectable),
        deviation=report.deviation,
        findings=report.findings,
    )


def after_calls(generations: GenerationLengths, gamma: int) -> tuple[doc.AfterCalls, ...]:
    """Tokens out after 1.. calls, measured, and exact where they are known."""
    counts = generations.counts
    lengths = zip(*counts.lengths.tolist(), strict=True)
    exact: Sequence[Any] = generations.exact or [None] * counts.lengths.shape[1]
    return tuple(
        doc.AfterCalls(
            calls=calls,
            exact=None if mean is None else float(mean),
            fraction=_fraction_text(mean),
            measured=measured_mean(total, squares, counts.trials, low=1, high=calls * (gamma + 1)),
        )
        for calls, (mean, (total, squares)) in enumerate(zip(exact, lengths, strict=True), start=1)
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


def interval_document(
    low: float, high: float, method: Any, most: float = math.inf, confidence: Any = CONFIDENCE
) -> doc.Expected:
    """Return E[tau] of which only bounds are known, from 0 to ``most``."""
    return doc.Expected(None, None, max(low, 0.0), min(high, most), method, confidence)


def curve_document(
    accepted: Ints, bounds: tuple[Any, Any] | None = None, exact: Any = None
) -> doc.Curve:
    """Return Pr(tau >= l), l = 1..gamma, of calls with tau counted in ``accepted`` (gamma+1,).

    ``bounds``: lower and upper ones; None: each frequency's own interval.
    """
    n, tails = int(accepted.sum()), np.cumsum(accepted[::-1])[::-1][1:]
    if bounds is None:
        bounds = np.zeros(len(tails)), np.ones(len(tails))
        if n:
            bounds = stats.rate_interval(tails, n, error=1.0 - CONFIDENCE)
    lower, upper = (np.asarray(bound, dtype=np.float64).tolist() for bound in bounds)
    return doc.Curve(
        exact=None if exact is None else tuple(exact.tolist()),
        lower=tuple(max(x, 0.0) for x in lower),
        upper=tuple(min(x, 1.0) for x in upper),
        measured=tuple((tails / max(n, 1)).tolist()),
    )


def exact_curve_document(accepted: Ints, curve: AcceptanceCurve | None) -> doc.Curve:
    """Return the exact curve beside the counted one; None: it is not known."""
    if curve is None:
        return curve_document(accepted)
    exact = curve.middle if curve.sample is None else None
    return curve_document(accepted, (curve.lower, curve.upper), exact)


def measured_tau(accepted: Ints) -> doc.Measured:
    """Return the mean of tau with its interval; without calls it may lie anywhere."""
    n, most = int(accepted.sum()), len(accepted) - 1
    if n == 0:
        return doc.Measured(0.0, 0.0, float(most), CONFIDENCE, 0)
    values = np.arange(most + 1)
    return measured_mean(int(accepted @ values), int(accepted @ values**2), n, low=0, high=most)


def measured_mean(total: int, squares: int, n: int, *, low: int, high: int) -> doc.Measured:
    """Return a mean of ``n`` whole numbers from ``low`` to ``high`` with its interval."""
    # Integer sums keep the variance exact however many blocks there are.
    variance = (n * squares - total * total) / (n * max(n - 1, 1))
    ci_low, ci_high = stats.empirical_bernstein(
        total / n, variance, n, low=low, high=high, error=1.0 - CONFIDENCE
    )
    return doc.Measured(total / n, float(ci_low), float(ci_high), CONFIDENCE, n)


def _fraction_text(value: Any) -> str | None:
    return str(value) if isinstance(value, Fraction) else None


def pit_curves(pits: npt.NDArray[Any]) -> tuple[doc.PitCurve, ...]:
    """Return the curve of each order from ``pits`` (orders, positions, bins); none if empty.

    The band is that of Dvoretzky, Kiefer, Wolfowitz and Massart for n values. It holds for
    tokens of all positions together as n grows: each PIT is uniform given all before it.
    """
    curves = []
    for order, histograms in zip(PIT_ORDERS, pits, strict=True) if len(pits) else ():
        counts = histograms.sum(axis=0)
        n = int(counts.sum()) if counts.size else 0
        if n == 0:
            continue
        below = np.concatenate([[0], np.cumsum(counts)])[:: counts.size // CURVE_STEPS] / n
        # A ten-millionth is less than a picture shows, and the document stays short.
        differences = np.round(below - np.linspace(0, 1, CURVE_STEPS + 1), 7)
        band = math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * n))
        curves.append(doc.PitCurve(order, n, tuple(differences.tolist()), band, CONFIDENCE))
    return tuple(curves)
