"""One model of a comparison on draft trees: its bounds, then every rule judged and measured."""

import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from simverify import results as doc
from simverify.comparing.documents import (
    acceptance_document,
    expected_document,
    lossless_document,
    measured_tau,
)
from simverify.comparing.exact.curves import CONFIDENCE
from simverify.comparing.exact.laws import passes
from simverify.comparing.exact.remembered import once
from simverify.comparing.kernels.acceptance import NOT_JUDGED
from simverify.comparing.kernels.check import plan_trials, sampled_check
from simverify.comparing.kernels.kernel import Counted
from simverify.comparing.model import ModelComparison, Settings, model_info, speedup_document
from simverify.comparing.own import OwnRule, own_row
from simverify.comparing.trees.bounds import Best, Bounds, bounds_of
from simverify.comparing.trees.curves import TreeCurve, tree_curve
from simverify.comparing.trees.kernel import READABLE_BLOCKS, ReadableTrial, TreeTrial, has_kernel
from simverify.comparing.trees.rows import StateRows
from simverify.errors import UsageError
from simverify.models import MarkovModel, Model
from simverify.simulators.run import Counts
from simverify.simulators.tables import MAX_CONTEXT_CELLS, model_tables
from simverify.stats import rate_interval
from simverify.trees import Drafting
from simverify.verifiers import Verifier
from simverify.verifiers.trees import TreeVerifier

_LP_ERROR = 1e-8
"""What the value of a linear program may be off by, either way."""


class TreeComparison:
    """One model with all rules for one tree and scheme: they share its tables and its bounds.

    ``counted``: of a single rule that has a kernel, its trials where they were counted already.
    """

    def __init__(
        self,
        model: Model,
        drafting: Drafting,
        rules: Mapping[str, Verifier | TreeVerifier | OwnRule],
        settings: Settings,
        alpha: float,
        say: Callable[[str], None],
        counted: Counted | None = None,
    ) -> None:
        self.model, self.drafting = _model_iv(model), drafting
        self.settings, self.alpha, self.say, self.counted = settings, alpha, say, counted
        self.one_draft = {n: rule for n, rule in rules.items() if isinstance(rule, Verifier)}
        say(f"{model.name}: exact laws")
        self.rows = StateRows.of(self.model)
        self.tables = model_tables(self.model)

    @cached_property
    def bounds(self) -> Bounds:
        """What no lossless rule exceeds on these trees."""
        return once(
            self.model,
            self.drafting,
            partial(bounds_of, self.drafting, self.model, self.rows),
        )

    @cached_property
    def chains(self) -> ModelComparison:
        """The same model with the rules for a single draft, as long as the tree is deep."""
        return ModelComparison(
            self.model, self.one_draft, self.settings, self.alpha, self.say, self.counted
        )

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one call."""
        return model_info(self.model, given, _coupling_document(self.bounds))

    def row(self, verifier: Verifier | TreeVerifier | OwnRule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one rule; returns its row and its blocks per second."""
        if not isinstance(verifier, TreeVerifier) and verifier.contract != "tree":
            row, speed = self.chains.row(verifier)
            return replace(row, one_draft=True), speed
        self.say(f"{self.model.name}: {verifier.name}")
        settings, shape = self.settings, self.drafting.shape
        if isinstance(verifier, OwnRule):
            return own_row(
                verifier, self.model, _optimum_document(self.bounds.memoryless),
                gamma=settings.gamma, blocks=settings.blocks, alpha=self.alpha,
                detect=settings.detect,
                speedup=lambda mean: speedup_document(mean, settings.gamma, settings, shape),
            )  # fmt: skip
        assert isinstance(verifier, TreeVerifier)
        law = tree_curve(verifier, self.drafting, self.model, self.rows, seed=settings.seed)
        compiled = has_kernel(verifier.name, self.drafting)
        trial = (TreeTrial if compiled else ReadableTrial)(
            verifier, self.model, self.tables, settings.gamma, settings.seed, settings.threads,
            law.curve, self.bounds.levels, self.alpha, settings.detect, self.drafting,
            counted=self.counted if compiled else None,
        )  # fmt: skip
        lossless, acceptance, counts, seconds = (_kernel if compiled else _readable)(
            trial, law, settings
        )
        accepted = measured_tau(counts, settings.gamma)
        expected = (
            _measured_document(accepted) if law.curve is None else expected_document(law.curve)
        )
        mean = accepted.mean if law.curve is None else law.curve.expected
        best = self.bounds.memoryless
        row = doc.CompareResult(
            model=self.model.name,
            verifier=verifier.name,
            gamma=settings.gamma,
            vocab_size=self.model.vocab_size,
            verdict=doc.overall([lossless.verdict, acceptance.verdict]),
            expected_accepted=expected,
            measured=accepted,
            block_efficiency=mean + 1,
            optimum=_optimum_document(best),
            optimality=mean / best.value if best.value > 0 else 1.0,
            lossless=lossless,
            acceptance=acceptance,
            acceptance_ccdf=_curve_document(law, counts),
            speedup=speedup_document(mean, settings.gamma, settings, shape),
            calls=(),
            nodes=law.nodes,
            node_counts=trial.count_nodes(counts.trials),
        )
        return row, counts.trials / seconds


def _kernel(
    trial: TreeTrial, law: TreeCurve, settings: Settings
) -> tuple[doc.Lossless, doc.Acceptance, Counts, float]:
    """Sample the compiled kernel; the exact law of the rule stands beside it."""
    check = sampled_check(trial, settings.blocks or plan_trials(trial))
    lossless = lossless_document(check, law.check, settings.detect)
    acceptance = acceptance_document(check.acceptance, settings.detect)
    return lossless, acceptance, check.counts, check.seconds


def _readable(
    trial: TreeTrial, law: TreeCurve, settings: Settings
) -> tuple[doc.Lossless, doc.Acceptance, Counts, float]:
    """Judge the readable rule: by its exact law alone, where that is known, or by its tokens."""
    most = max(READABLE_BLOCKS // max(len(trial.drafting.shape) // 16, 1), 100)
    trials = min(settings.blocks or most, most)
    if law.check is None:
        clock = time.perf_counter()
        check = sampled_check(trial, trials)
        seconds = time.perf_counter() - clock
        lossless = lossless_document(check, None, settings.detect)
        acceptance = acceptance_document(check.acceptance, settings.detect)
        return lossless, acceptance, check.counts, seconds
    clock = time.perf_counter()
    counts = trial.run(trials)
    seconds = time.perf_counter() - clock
    right = passes(law.check)
    found = f"its own law differs from the target's by TV {law.check.tv:.3g} ({law.check.scope})"
    lossless = doc.Lossless(
        verdict="PASS" if right else "FAIL",
        tier="exact",
        max_abs_deviation=law.check.max_abs_deviation,
        tv=law.check.tv,
        exact=law.check,
        tests=(),
        # No code stands for the rule but the rule: its law is all that there is to find.
        detectable=0.0,
        deviation=doc.ANY_DEVIATION,
        beside=(),
        certificate=None,
        findings=() if right else (found,),
    )
    return lossless, _not_judged(), counts, seconds


def _not_judged() -> doc.Acceptance:
    return doc.Acceptance(
        verdict="PASS", words="not judged, as no kernel stands for the rule", tests=(),
        detectable=0.0, deviation=NOT_JUDGED, findings=(),
    )  # fmt: skip


def _model_iv(model: Model) -> MarkovModel:
    if not isinstance(model, MarkovModel):
        raise UsageError(
            f"{model.name} on draft trees: expected a model whose rows follow from the last token; "
            "take toy, compact, markov-V, ngram or a file of rows"
        )
    cells = (model.states + 1) * model.vocab_size
    if cells > MAX_CONTEXT_CELLS:
        raise UsageError(
            f"{model.name} on draft trees has {cells:,} entries of rows: expected at most "
            f"{MAX_CONTEXT_CELLS:,}; take a smaller vocabulary, such as markov-1024"
        )
    return model


def _coupling_document(bounds: Bounds) -> doc.Expected:
    best = bounds.coupling
    if best.by == "closed-form":
        return expected_document(bounds.of_any or bounds.levels)
    if best.by == "linear-programme":
        low, high = best.value - _LP_ERROR, best.value + _LP_ERROR
        return doc.Expected(
            exact=best.value, fraction=None, lower=max(low, 0.0), upper=high, method=best.by
        )
    return doc.Expected(exact=None, fraction=None, lower=0.0, upper=best.value, method="counting")


def _optimum_document(best: Best) -> doc.Optimum:
    return doc.Optimum(
        name="memoryless", expected_accepted=best.value, by=best.by, bound=best.bound
    )


def _measured_document(found: doc.Measured) -> doc.Expected:
    return doc.Expected(
        exact=None, fraction=None, lower=found.ci_low, upper=found.ci_high, method="measured",
        confidence=found.confidence,
    )  # fmt: skip


def _curve_document(law: TreeCurve, counts: Counts) -> doc.Curve:
    measured: Any = (counts.tail_counts / counts.trials).tolist()
    if law.curve is None:
        low, high = rate_interval(counts.tail_counts, counts.trials, error=1 - CONFIDENCE)
        return doc.Curve(
            exact=None, lower=tuple(low.tolist()), upper=tuple(high.tolist()),
            measured=tuple(measured),
        )  # fmt: skip
    return doc.Curve(
        exact=tuple(law.curve.middle.tolist()) if law.curve.sample is None else None,
        lower=tuple(law.curve.lower.tolist()),
        upper=tuple(law.curve.upper.tolist()),
        measured=tuple(measured),
    )
