"""One simulated model of a comparison: its exact curves, then every verifier's results."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from simverify import results as doc
from simverify.comparing.curves import acceptance_curves, check_exactly, is_enumerable
from simverify.comparing.custom_rules import UserRule, judge_user_rule
from simverify.comparing.documents import (
    acceptance_document,
    after_calls,
    expected_document,
    lossless_document,
    measured_tau,
)
from simverify.comparing.sampled import (
    CountFunction,
    GenerationLengths,
    KernelTrial,
    plan_blocks,
    plan_trials,
    sampled_check,
)
from simverify.models import MarkovModel, Model
from simverify.simulators.exact.laws import (
    TooManyCalls,
    laws_by_tree,
    markov_rows,
    tokens_after_calls,
)
from simverify.simulators.latency import SINGLE_SEQUENCE, Load, predicted_speedup
from simverify.simulators.run import model_tables, simulate
from simverify.verifiers import VERIFIERS, Verifier

if TYPE_CHECKING:
    from simverify.trees import TreeShape

MAX_GENERATIONS = 200_000
"""Generations behind the tokens after i calls."""

_EXACT_CALL_LEAVES = 30_000
"""Work limit for exact tokens after calls: drafted blocks times distinct calls."""


@dataclass(frozen=True)
class ComparisonSettings:
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
    load: Load = SINGLE_SEQUENCE


def model_document(model: Model, given: str | None, coupling: doc.Expected) -> doc.ModelInfo:
    """Return a model's own entry, with the ``coupling`` bound on one call."""
    return doc.ModelInfo(
        name=model.name,
        given=given,
        vocab_size=model.vocab_size,
        bounds=doc.Bounds(coupling=coupling),
        file_sha256=getattr(model, "file_sha256", None),
        draft_distance=getattr(model, "draft_distance", None),
        temperature=getattr(model, "temperature", None),
        corpus_sha256=getattr(model, "corpus_sha256", None),
        target_perplexity=getattr(model, "target_perplexity", None),
        draft_perplexity=getattr(model, "draft_perplexity", None),
    )


def speedup_document(
    accepted: float, gamma: int, settings: ComparisonSettings, shape: "TreeShape | None" = None
) -> doc.Speedup:
    """Return what the latency model makes of ``accepted`` tokens a call."""
    load = settings.load
    nodes = gamma if shape is None else len(shape)
    return doc.Speedup(
        cost_ratio=settings.cost_ratio,
        predicted=predicted_speedup(accepted, gamma, settings.cost_ratio, load, shape=shape),
        batch_size=load.batch_size,
        free_rows=load.free_rows,
        rows=nodes + 1,
    )


class ModelComparison:
    """One model with all its verifiers: they share its tables and its exact curves.

    ``counted``: of a single verifier, its trials where they were counted already.
    """

    def __init__(
        self,
        model: Model,
        rules: Mapping[str, Verifier | UserRule],
        settings: ComparisonSettings,
        alpha: float,
        say: Callable[[str], None],
        counted: CountFunction | None = None,
    ) -> None:
        self.model, self.settings, self.alpha, self.say = model, settings, alpha, say
        self.counted = counted
        say(f"{model.name}: exact laws")
        # Block and greedy are everyone's yardsticks, asked for or not.
        built_in = {name: x for name, x in rules.items() if isinstance(x, Verifier)}
        needed = {**built_in, "block": VERIFIERS["block"], "greedy": VERIFIERS["greedy"]}
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
        return model_document(self.model, given, expected_document(self.curves["greedy"]))

    def row(self, verifier: Verifier | UserRule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one verifier; returns its row and its blocks per second."""
        self.say(f"{self.model.name}: {verifier.name}")
        if isinstance(verifier, UserRule):
            return self._own_row(verifier)
        settings, curve = self.settings, self.curves[verifier.name]
        coupling = verifier.contract == "step"
        best = self.curves["greedy" if coupling else "block"]
        trial = KernelTrial(
            verifier,
            self.model,
            self.tables,
            settings.gamma,
            settings.seed,
            settings.threads,
            curve,
            best,
            self.alpha,
            settings.detect,
            counted=self.counted,
        )
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
        exact = None
        if is_enumerable(self.model, settings.gamma):
            exact = check_exactly(verifier, self.model, settings.gamma)
        lossless = lossless_document(check, exact, settings.detect)
        acceptance = acceptance_document(check.acceptance, settings.detect)
        optimum = best.expected
        row = doc.CompareResult(
            model=self.model.name,
            verifier=verifier.name,
            gamma=settings.gamma,
            vocab_size=self.model.vocab_size,
            verdict=doc.overall([lossless.verdict, acceptance.verdict]),
            expected_accepted=expected_document(curve),
            measured=measured_tau(first, settings.gamma),
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
            speedup=speedup_document(curve.expected, settings.gamma, settings),
            calls=after_calls(generations, settings.gamma) if generations else (),
        )
        return row, first.trials / max(seconds, 1e-9)

    def _own_row(self, rule: UserRule) -> tuple[doc.CompareResult, float]:
        settings = self.settings
        # Of a rule that drafts for itself nothing is known but the bound of all.
        name: Literal["block", "coupling"] = "coupling" if rule.contract == "step" else "block"
        best = self.curves["greedy" if name == "coupling" else "block"]
        return judge_user_rule(
            rule,
            self.model,
            doc.Optimum(name=name, expected_accepted=best.expected),
            gamma=settings.gamma,
            blocks=settings.blocks,
            alpha=self.alpha,
            detect=settings.detect,
            speedup=lambda accepted: speedup_document(accepted, settings.gamma, settings),
        )

    def _generations(self, verifier: Verifier) -> GenerationLengths:
        """Run generations of many calls, and work out their lengths where the model allows it."""
        settings = self.settings
        counts = simulate(
            self.tables,
            verifier.name,
            settings.gamma,
            min(settings.blocks or MAX_GENERATIONS, MAX_GENERATIONS),
            seed=settings.seed,
            threads=settings.threads,
            calls=settings.calls,
            eos=settings.eos,
        )
        return GenerationLengths(counts, self._exact_calls(verifier), settings.eos is not None)

    def _exact_calls(self, verifier: Verifier) -> list[Any] | None:
        model, settings = self.model, self.settings
        if not isinstance(model, MarkovModel) or not is_enumerable(model, settings.gamma):
            return None
        laws = laws_by_tree(verifier, markov_rows(model), settings.gamma)
        budget = max(_EXACT_CALL_LEAVES // model.vocab_size**settings.gamma, 1)
        try:
            return tokens_after_calls(
                laws, settings.gamma, settings.calls, eos=settings.eos, max_laws=budget
            )
        except TooManyCalls:
            return None
