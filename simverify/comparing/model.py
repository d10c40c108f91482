"""One model of a comparison: its exact curves, then every verifier judged and measured."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from simverify import results as doc
from simverify import stats
from simverify.battery.judgement import (
    Judgement,
    certificate_document,
    faults_document,
    finite,
    suspect_document,
    test_document,
)
from simverify.comparing.exact.curves import (
    CONFIDENCE,
    AcceptanceCurve,
    acceptance_curves,
    enumerable,
)
from simverify.comparing.exact.laws import exact_check, passes
from simverify.comparing.kernels.acceptance import Generations
from simverify.comparing.kernels.check import SampledCheck, plan_blocks, plan_trials, sampled_check
from simverify.comparing.kernels.kernel import Trial
from simverify.comparing.kernels.pits import pit_curves
from simverify.models import MarkovModel, Model
from simverify.simulators.exact.calls import TooManyCalls, laws_by_tree, tokens_after_calls
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.latency import predicted_speedup
from simverify.simulators.run import Counts, simulate
from simverify.simulators.tables import model_tables
from simverify.verifiers import VERIFIERS, Verifier

GENERATIONS = 200_000
"""Generations behind the tokens after i calls."""

_ACCEPTANCE_WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}

_EXACT_CALL_LEAVES = 30_000
"""Work limit for exact tokens after calls: drafted blocks times distinct calls."""


@dataclass(frozen=True)
class Settings:
    """What a comparison is asked for; see :func:`simverify.compare`."""

    gamma: int
    blocks: int | None
    calls: int
    eos: int | None
    cost_ratio: float
    alpha: float
    detect: float
    seed: int
    threads: int


class ModelComparison:
    """One model with all its verifiers: they share its tables and its exact curves."""

    def __init__(
        self,
        model: Model,
        rules: Mapping[str, Verifier],
        settings: Settings,
        alpha: float,
        say: Callable[[str], None],
    ) -> None:
        self.model, self.settings, self.alpha, self.say = model, settings, alpha, say
        say(f"{model.name}: exact laws")
        # Block and greedy are everyone's yardsticks, asked for or not.
        needed = {**rules, "block": VERIFIERS["block"], "greedy": VERIFIERS["greedy"]}
        self.curves = acceptance_curves(
            model, needed, settings.gamma, seed=settings.seed, threads=settings.threads
        )
        # After the curves, whose scratch memory is as large: both at once would be too much.
        self.tables = model_tables(model)

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one iteration.

        ``given``: the name or file that the model was asked for by, if it was.
        """
        # Greedy's first call attains it (Sun et al. 2025, theorem 3).
        return doc.ModelInfo(
            name=self.model.name,
            given=given,
            vocab_size=self.model.vocab_size,
            bounds=doc.Bounds(coupling=_expected(self.curves["greedy"])),
            file_sha256=getattr(self.model, "file_sha256", None),
            draft_distance=getattr(self.model, "draft_distance", None),
            temperature=getattr(self.model, "temperature", None),
            corpus_sha256=getattr(self.model, "corpus_sha256", None),
            target_perplexity=getattr(self.model, "target_perplexity", None),
            draft_perplexity=getattr(self.model, "draft_perplexity", None),
        )

    def row(self, verifier: Verifier) -> tuple[doc.CompareResult, float]:
        """Judge and measure one verifier; returns its row and its blocks per second."""
        settings, curve = self.settings, self.curves[verifier.name]
        self.say(f"{self.model.name}: {verifier.name}")
        coupling = verifier.contract == "step"
        best = self.curves["greedy" if coupling else "block"]
        trial = Trial(
            verifier, self.model, self.tables, settings.gamma, curve, best, self.alpha,
            settings.detect, settings.seed, settings.threads,
        )  # fmt: skip
        calls = settings.calls > 0
        trials = settings.blocks or plan_trials(trial, calls=calls)
        first = None
        seconds = 0.0
        if coupling:
            clock = time.perf_counter()
            first = trial.first_calls(settings.blocks or plan_blocks(trial, calls=calls))
            seconds = time.perf_counter() - clock
        generations = self._generations(verifier) if calls else None
        check = sampled_check(trial, trials, first, generations)
        if first is None:
            first, seconds = check.counts, check.seconds
        exact = exact_check(verifier, self.model, settings.gamma)
        lossless = _lossless(check, exact, settings.detect)
        acceptance = _acceptance(check.acceptance, settings.detect)
        optimum = best.expected
        row = doc.CompareResult(
            model=self.model.name,
            verifier=verifier.name,
            gamma=settings.gamma,
            vocab_size=self.model.vocab_size,
            verdict=doc.overall([lossless.verdict, acceptance.verdict]),
            expected_accepted=_expected(curve),
            measured=_measured_tau(first, settings.gamma),
            block_efficiency=curve.expected + 1,
            optimum=doc.Optimum(
                name="coupling" if coupling else "block", expected_accepted=optimum
            ),
            optimality=curve.expected / optimum if optimum > 0 else 1.0,
            lossless=lossless,
            acceptance=acceptance,
            acceptance_ccdf=doc.Curve(
                exact=tuple(curve.middle.tolist()) if curve.sample is None else None,
                lower=tuple(curve.lower.tolist()),
                upper=tuple(curve.upper.tolist()),
                measured=tuple((first.tail_counts / first.trials).tolist()),
            ),
            speedup=doc.Speedup(
                cost_ratio=settings.cost_ratio,
                predicted=predicted_speedup(curve.expected, settings.gamma, settings.cost_ratio),
            ),
            calls=_after_calls(generations, settings.gamma) if generations else (),
        )
        return row, first.trials / seconds

    def _generations(self, verifier: Verifier) -> Generations:
        """Run generations of many calls, and work out their lengths where the model allows it."""
        settings = self.settings
        counts = simulate(
            self.tables,
            verifier.name,
            settings.gamma,
            min(settings.blocks or GENERATIONS, GENERATIONS),
            seed=settings.seed,
            threads=settings.threads,
            calls=settings.calls,
            eos=settings.eos,
        )
        return Generations(counts, self._exact_calls(verifier), settings.eos is not None)

    def _exact_calls(self, verifier: Verifier) -> list[Any] | None:
        model, settings = self.model, self.settings
        if not isinstance(model, MarkovModel) or not enumerable(model, settings.gamma):
            return None
        laws = laws_by_tree(verifier, markov_rows(model), settings.gamma)
        budget = max(_EXACT_CALL_LEAVES // model.vocab_size**settings.gamma, 1)
        try:
            return tokens_after_calls(
                laws, settings.gamma, settings.calls, eos=settings.eos, max_laws=budget
            )
        except TooManyCalls:
            return None


def _lossless(check: SampledCheck, exact: doc.ExactCheck | None, detect: float) -> doc.Lossless:
    sampled = check.lossless
    findings = list(sampled.findings)
    verdict = sampled.verdict(detect)
    if exact is not None and not passes(exact):
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
        detectable=finite(sampled.detectable),
        deviation=sampled.deviation,
        beside=tuple(
            doc.Power(deviation=deviation, detectable=finite(size))
            for deviation, size in sampled.beside
        ),
        # A bound beside a FAIL would certify what was found to be wrong.
        certificate=certificate_document(check.certificate) if verdict == "PASS" else None,
        faults=faults_document(sampled.named),
        localisation=suspect_document(sampled.located),
        findings=tuple(findings),
        pits=pit_curves(check.counts.pits),
    )


def _acceptance(judgement: Judgement, detect: float) -> doc.Acceptance:
    verdict = judgement.verdict(detect)
    return doc.Acceptance(
        verdict=verdict,
        words=_ACCEPTANCE_WORDS[verdict],
        tests=tuple(test_document(test) for test in judgement.tests),
        detectable=finite(judgement.detectable),
        deviation=judgement.deviation,
        findings=judgement.findings,
    )


def _after_calls(generations: Generations, gamma: int) -> tuple[doc.AfterCalls, ...]:
    """Tokens out after 1.. calls, measured, and exact where they are known."""
    counts = generations.counts
    calls = counts.lengths.shape[1]
    exact: Sequence[float | Fraction | None] = generations.exact or [None] * calls
    return tuple(
        doc.AfterCalls(
            calls=i + 1,
            exact=None if mean is None else float(mean),
            fraction=_fraction(mean),
            measured=_measured(
                int(counts.lengths[0, i]),
                int(counts.lengths[1, i]),
                counts.trials,
                low=1,
                high=(i + 1) * (gamma + 1),
            ),
        )
        for i, mean in enumerate(exact)
    )


def _expected(curve: AcceptanceCurve) -> doc.Expected:
    return doc.Expected(
        exact=curve.expected if curve.sample is None else None,
        fraction=_fraction(curve.fraction),
        lower=curve.expected_lower,
        upper=curve.expected_upper,
        method=curve.method,
        confidence=CONFIDENCE if curve.sample is not None else None,
    )


def _measured_tau(counts: Counts, gamma: int) -> doc.Measured:
    values = np.arange(gamma + 1)
    total = int(counts.accepted @ values)
    return _measured(total, int(counts.accepted @ values**2), counts.trials, low=0, high=gamma)


def _measured(total: int, squares: int, n: int, *, low: int, high: int) -> doc.Measured:
    # Integer sums keep the variance exact however many blocks there are.
    variance = (n * squares - total * total) / (n * max(n - 1, 1))
    ci_low, ci_high = stats.empirical_bernstein(
        total / n, variance, n, low=low, high=high, error=1.0 - CONFIDENCE
    )
    return doc.Measured(
        mean=total / n, ci_low=ci_low, ci_high=ci_high, confidence=CONFIDENCE, blocks=n
    )


def _fraction(value: Any) -> str | None:
    return str(value) if isinstance(value, Fraction) else None
