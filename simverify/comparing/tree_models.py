"""One simulated model of a comparison on draft trees: its bounds, then every rule judged."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Any

import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.battery import output_tokens
from simverify.comparing.curves import CONFIDENCE, compute_once, is_exact
from simverify.comparing.custom_rules import MIN_CALLS, UserRule, judge_user_rule
from simverify.comparing.documents import (
    acceptance_document,
    expected_document,
    lossless_document,
    measured_tau,
)
from simverify.comparing.model import (
    ComparisonSettings,
    ModelComparison,
    model_document,
    speedup_document,
)
from simverify.comparing.real import tree_coupling_document, tree_optimum_document, tree_row
from simverify.comparing.sampled import (
    NOT_JUDGED_DEVIATION,
    CountFunction,
    KernelTrial,
    ModelKernel,
    plan_trials,
    sampled_check,
)
from simverify.comparing.tree_bounds import (
    BestRule,
    TreeBounds,
    TreeCurve,
    compute_tree_bounds,
    tree_curve,
)
from simverify.comparing.trees import StateRows, Text, map_nodes_to_shape
from simverify.errors import UsageError
from simverify.models import MarkovModel, Model
from simverify.results import NodeCounts
from simverify.simulators.decoding.job import ModelRows
from simverify.simulators.decoding.loop import Block, call_generator
from simverify.simulators.decoding.trees import (
    DecodedTreeRun,
    DrawnTree,
    StatelessTreeVerifier,
    TreeBlock,
    TreeEmissionObserver,
    tree_arguments,
)
from simverify.simulators.kernels.philox import DRAFT
from simverify.simulators.run import MAX_CONTEXT_CELLS, PIT_BINS, Counts, TokenSample, model_tables
from simverify.simulators.trees import compiled_rules, count_nodes
from simverify.stats import rate_interval
from simverify.trees import Drafting, GrowingTree, draw_tree
from simverify.verifiers import Verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

# Readable rules for draft trees, called on a model that has no kernels for them.
#
# Every call begins at a text of its own and sees the same tree as those of the other rules.


CALL_GROUPS = 50
"""Groups of calls, from whose spread intervals are had."""


class PythonRuleComparison:
    """One model with all rules for one tree and scheme.

    ``counted``: of a single rule for one draft, its trials where they were counted already.
    """

    def __init__(
        self,
        model: Model,
        drafting: Drafting,
        rules: Mapping[str, Verifier | TreeVerifier | UserRule],
        settings: ComparisonSettings,
        alpha: float,
        say: Callable[[str], None],
        counted: CountFunction | None = None,
    ) -> None:
        self.model, self.drafting, self.settings = model, drafting, settings
        self.alpha, self.say, self._rules, self._counted = alpha, say, rules, counted
        self._runs: dict[str, tuple[DecodedTreeRun, float]] = {}
        tokens = output_tokens(settings.detect, alpha)
        self._tokens = tokens if settings.blocks is None else settings.blocks
        # Each call has one node at least whose step is judged, for which as many are enough.
        calls = max(tokens, MIN_CALLS)
        # Intervals are over lanes, two of them at least.
        self._calls = max(calls if settings.blocks is None else settings.blocks, CALL_GROUPS)
        self._rows = ModelRows(model)

    @cached_property
    def _chains(self) -> ModelComparison:
        one_draft = {n: rule for n, rule in self._rules.items() if isinstance(rule, Verifier)}
        return ModelComparison(
            self.model, one_draft, self.settings, self.alpha, self.say, self._counted
        )

    @cached_property
    def _first(self) -> tuple[DecodedTreeRun, float]:
        """The run of one rule, whose trees are those of all."""
        rules = [rule for rule in self._rules.values() if isinstance(rule, TreeVerifier)]
        return self._run(rules[0] if rules else TREE_VERIFIERS["match"])

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one call."""
        return model_document(
            self.model, given, tree_coupling_document(self.drafting, self._first[0])
        )

    def row(self, verifier: Verifier | TreeVerifier | UserRule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one rule; returns its row and its calls per second."""
        if not isinstance(verifier, TreeVerifier) and verifier.contract != "tree":
            row, speed = self._chains.row(verifier)
            return replace(row, one_draft=True), speed
        settings, shape = self.settings, self.drafting.shape
        if isinstance(verifier, UserRule):
            self.say(f"{self.model.name}: {verifier.name}")
            return judge_user_rule(
                verifier,
                self.model,
                tree_optimum_document(self.drafting, self._first[0]),
                gamma=settings.gamma,
                blocks=settings.blocks,
                alpha=self.alpha,
                detect=settings.detect,
                speedup=lambda mean: speedup_document(mean, settings.gamma, settings, shape),
            )
        assert isinstance(verifier, TreeVerifier)
        seen, seconds = self._run(verifier)
        row = tree_row(
            self.model.name,
            self.model.vocab_size,
            verifier,
            self.drafting,
            seen,
            share=self.alpha,
            detect=settings.detect,
            cost_ratio=settings.cost_ratio,
        )
        accepted = row.block_efficiency - 1.0
        predicted = speedup_document(accepted, settings.gamma, settings, shape)
        return replace(row, speedup=predicted), seen.worth.blocks / seconds

    def _run(self, rule: TreeVerifier) -> tuple[DecodedTreeRun, float]:
        """Return what the calls of ``rule`` leave, and their seconds; of each rule they run once.

        ``_calls`` calls are counted and ``_tokens`` tokens judged, both fixed beforehand.
        """
        if rule.name in self._runs:
            return self._runs[rule.name]
        self.say(f"{self.model.name}: {rule.name}")
        seen = TreeEmissionObserver(
            CALL_GROUPS, self.settings.seed, self.drafting, rule, nodes=self._calls // CALL_GROUPS
        )
        judge, left, clock = StatelessTreeVerifier(rule.rule), self._tokens, time.perf_counter()
        for number in count():
            if number >= self._calls and not left:
                break
            call = self._call(number, judge, left)
            left -= len(call.block.emitted)
            if number < self._calls:
                seen(call)
            else:
                seen.complete(call)
        run = seen.decoded, time.perf_counter() - clock
        self._runs[rule.name] = run
        return run

    def _call(self, number: int, judge: StatelessTreeVerifier, left: int) -> TreeBlock:
        """Draft a tree and judge it; ``left``: how many of the tokens may still count."""
        key = [self.settings.seed, DRAFT]
        rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, number, 0]))
        prefix = self._rows.start(rng)
        growing = GrowingTree(self.drafting, prefix)
        for node, children in self.drafting.shape.children.items():
            if children and node in growing.text:
                growing.grow(node, self._rows.draft(growing.text[node]), rng)
        tree = growing.tree()
        rows = (tree.rows(row, prefix) for row in self._rows.both)
        drawn = DrawnTree(tree, tuple(growing.kept), *rows)
        tokens = judge.judge(tree, tree_arguments(drawn), call_generator(key[0], 0, number))
        way, emitted = tree.way_of(tokens[:-1]), tokens[:left]
        at = [0, *(node + 1 for node in way)][: len(emitted)]
        block = Block(
            number % CALL_GROUPS, 0, True, drawn.p[at], drawn.q[at], (), len(tokens) - 1, emitted
        )
        return TreeBlock(block, drawn, tokens, way)


# The runners of a sampled check on draft trees: a rule's kernel, or the readable rule.


PYTHON_RULE_BLOCKS = 4_000
"""Calls of a readable rule, a second or so."""

MAX_NODE_CALLS = 1 << 16
"""Most calls of which each node is counted: a tenth of a second, and .002 of a call in doubt."""


@dataclass(frozen=True, eq=False)
class TreeKernel(ModelKernel):
    """One rule's kernel on one model, and the trees that are drafted for it."""

    drafting: Drafting

    @property
    def trees(self) -> Drafting:
        """Those that it judges."""
        return self.drafting

    def count_nodes(self, trials: int) -> NodeCounts:
        """Count the nodes that the first ``trials`` calls kept, ``MAX_NODE_CALLS`` at most."""
        calls = min(trials, MAX_NODE_CALLS)
        counts = count_nodes(self.tables, self.verifier, self.drafting, calls, seed=self.seed)
        return NodeCounts(calls=calls, kept=tuple(counts.tolist()))


@dataclass(frozen=True, eq=False)
class TreeTrial(TreeKernel, KernelTrial):
    """Such a kernel on trial."""


@dataclass(frozen=True, eq=False)
class PythonRuleTrial(TreeTrial):
    """The readable rule itself, called on drawn trees: slow, and without threads."""

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        accepted = np.zeros(self.gamma + 1, np.int64)
        lengths = np.zeros((2, 1), np.int64)
        transitions = np.zeros((positions, len(self.rows), self.cells), np.int64)
        for emitted, _ in _call_rule(self, trials, first_trial):
            accepted[len(emitted) - 1] += 1
            lengths[:, 0] += len(emitted), len(emitted) ** 2
            for position, (state, token) in enumerate(_token_states(emitted, len(self.rows) - 1)):
                transitions[position, state, token] += 1
        return Counts(
            trials, accepted, lengths, transitions, np.zeros((2, 0, PIT_BINS), np.int64), 0
        )

    def _sample(self, size: int, calls: int, positions: int) -> TokenSample:
        steps = [
            (state, token, position)
            for emitted, _ in _call_rule(self, size, 0)
            for position, (state, token) in enumerate(_token_states(emitted, len(self.rows) - 1))
        ][:size]
        states, tokens, places = np.array(steps, np.int64).T
        uniforms = np.random.default_rng([self.seed, 1]).random(len(steps))
        return TokenSample(states, tokens, places, uniforms)

    def count_nodes(self, trials: int) -> NodeCounts:
        """Count the nodes that all calls kept."""
        counts = np.zeros(len(self.drafting.shape), np.int64)
        for _, way in _call_rule(self, trials, 0):
            counts[list(way)] += 1
        return NodeCounts(calls=trials, kept=tuple(counts.tolist()))


def has_kernel(name: str, drafting: Drafting) -> bool:
    """Whether there is a compiled kernel of the rule ``name`` for trees so drafted."""
    return name in compiled_rules(drafting)


# Cached: a second pass over the same calls counts the tokens.
@lru_cache(maxsize=1)
def _call_rule(
    trial: PythonRuleTrial, trials: int, first_trial: int
) -> tuple[tuple[Text, Text], ...]:
    """Return what each of ``trials`` calls after the empty prefix emits, and the nodes it keeps."""
    rng = np.random.default_rng([trial.seed, 0, first_trial])
    model: Any = trial.model
    calls = []
    for _ in range(trials):
        tree = draw_tree(trial.drafting, model.draft, rng)
        rows = tree.rows(model.target), tree.rows(model.draft)
        arrays = np.array(tree.tokens), np.array(tree.shape.parents)
        emitted = tuple(map(int, trial.verifier.rule(*rows, *arrays, rng)))
        calls.append((emitted, map_nodes_to_shape(trial.drafting, tree, tree.way_of(emitted[:-1]))))
    return tuple(calls)


def _token_states(emitted: tuple[int, ...], states: int) -> list[tuple[int, int]]:
    """Return each token with the row before it, that of no token being the last."""
    before = [states, *(token % states for token in emitted[:-1])]
    return list(zip(before, emitted, strict=True))


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
        rules: Mapping[str, Verifier | TreeVerifier | UserRule],
        settings: ComparisonSettings,
        alpha: float,
        say: Callable[[str], None],
        counted: CountFunction | None = None,
    ) -> None:
        self.model, self.drafting = _check_tree_model(model), drafting
        self.settings, self.alpha, self.say, self.counted = settings, alpha, say, counted
        self.one_draft = {n: rule for n, rule in rules.items() if isinstance(rule, Verifier)}
        say(f"{model.name}: exact laws")
        self.rows = StateRows.of(self.model)
        self.tables = model_tables(self.model)

    @cached_property
    def bounds(self) -> TreeBounds:
        """What no lossless rule exceeds on these trees."""
        return compute_once(
            self.model,
            self.drafting,
            partial(compute_tree_bounds, self.drafting, self.model, self.rows),
        )

    @cached_property
    def chains(self) -> ModelComparison:
        """The same model with the rules for a single draft, as long as the tree is deep."""
        return ModelComparison(
            self.model, self.one_draft, self.settings, self.alpha, self.say, self.counted
        )

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one call."""
        return model_document(self.model, given, _coupling_document(self.bounds))

    def row(self, verifier: Verifier | TreeVerifier | UserRule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one rule; returns its row and its blocks per second."""
        if not isinstance(verifier, TreeVerifier) and verifier.contract != "tree":
            row, speed = self.chains.row(verifier)
            return replace(row, one_draft=True), speed
        self.say(f"{self.model.name}: {verifier.name}")
        settings, shape = self.settings, self.drafting.shape
        if isinstance(verifier, UserRule):
            return judge_user_rule(
                verifier,
                self.model,
                _optimum_document(self.bounds.memoryless),
                gamma=settings.gamma,
                blocks=settings.blocks,
                alpha=self.alpha,
                detect=settings.detect,
                speedup=lambda mean: speedup_document(mean, settings.gamma, settings, shape),
            )
        assert isinstance(verifier, TreeVerifier)
        law = tree_curve(verifier, self.drafting, self.model, self.rows, seed=settings.seed)
        compiled = has_kernel(verifier.name, self.drafting)
        trial = (TreeTrial if compiled else PythonRuleTrial)(
            verifier,
            self.model,
            self.tables,
            settings.gamma,
            settings.seed,
            settings.threads,
            law.curve,
            self.bounds.levels,
            self.alpha,
            settings.detect,
            self.drafting,
            counted=self.counted if compiled else None,
        )
        lossless, acceptance, counts, seconds = (_judge_kernel if compiled else _judge_python_rule)(
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


def _judge_kernel(
    trial: TreeTrial, law: TreeCurve, settings: ComparisonSettings
) -> tuple[doc.Lossless, doc.Acceptance, Counts, float]:
    """Sample the compiled kernel; the exact law of the rule stands beside it."""
    check = sampled_check(trial, settings.blocks or plan_trials(trial))
    lossless = lossless_document(check, law.check, settings.detect)
    acceptance = acceptance_document(check.acceptance, settings.detect)
    return lossless, acceptance, check.counts, check.seconds


def _judge_python_rule(
    trial: TreeTrial, law: TreeCurve, settings: ComparisonSettings
) -> tuple[doc.Lossless, doc.Acceptance, Counts, float]:
    """Judge the readable rule: by its exact law alone, where that is known, or by its tokens."""
    most = max(PYTHON_RULE_BLOCKS // max(len(trial.drafting.shape) // 16, 1), 100)
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
    right = is_exact(law.check)
    finding = f"its own law differs from the target's by TV {law.check.tv:.3g} ({law.check.scope})"
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
        findings=() if right else (finding,),
    )
    return lossless, _unjudged_acceptance(), counts, seconds


def _unjudged_acceptance() -> doc.Acceptance:
    return doc.Acceptance(
        verdict="PASS",
        words="not judged, as no kernel stands for the rule",
        tests=(),
        detectable=0.0,
        deviation=NOT_JUDGED_DEVIATION,
        findings=(),
    )


def _check_tree_model(model: Model) -> MarkovModel:
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


def _coupling_document(bounds: TreeBounds) -> doc.Expected:
    best = bounds.coupling
    if best.by == "closed-form":
        return expected_document(bounds.of_any or bounds.levels)
    if best.by == "linear-programme":
        low, high = best.value - _LP_ERROR, best.value + _LP_ERROR
        return doc.Expected(
            exact=best.value, fraction=None, lower=max(low, 0.0), upper=high, method=best.by
        )
    return doc.Expected(exact=None, fraction=None, lower=0.0, upper=best.value, method="counting")


def _optimum_document(best: BestRule) -> doc.Optimum:
    return doc.Optimum(
        name="memoryless", expected_accepted=best.value, by=best.by, bound=best.bound
    )


def _measured_document(found: doc.Measured) -> doc.Expected:
    return doc.Expected(
        exact=None,
        fraction=None,
        lower=found.ci_low,
        upper=found.ci_high,
        method="measured",
        confidence=found.confidence,
    )


def _curve_document(law: TreeCurve, counts: Counts) -> doc.Curve:
    measured: Any = (counts.tail_counts / counts.trials).tolist()
    if law.curve is None:
        low, high = rate_interval(counts.tail_counts, counts.trials, error=1 - CONFIDENCE)
        return doc.Curve(
            exact=None,
            lower=tuple(low.tolist()),
            upper=tuple(high.tolist()),
            measured=tuple(measured),
        )
    return doc.Curve(
        exact=tuple(law.curve.middle.tolist()) if law.curve.sample is None else None,
        lower=tuple(law.curve.lower.tolist()),
        upper=tuple(law.curve.upper.tolist()),
        measured=tuple(measured),
    )
