"""One simulated model of a comparison: its exact laws and bounds, then every rule's row.

A rule judges a single draft or draft trees. Its kernel is sampled; a rule for trees without one is
called itself.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.battery import TestReport, output_tokens
from simverify.comparing import curves as exact_curves
from simverify.comparing import documents, sampled
from simverify.comparing.custom_rules import MIN_CALLS, UserRule, judge_user_rule
from simverify.comparing.real import (
    coupling_document,
    decoded_row,
    tree_optimum_document,
)
from simverify.comparing.tree_bounds import TreeBounds, TreeCurve, compute_tree_bounds, tree_curve
from simverify.comparing.trees import StateRows, Text, map_nodes_to_shape
from simverify.errors import UsageError
from simverify.models import MarkovModel, Model
from simverify.models.ngram import NgramModel
from simverify.simulators.decoding import trees as tree_decoding
from simverify.simulators.decoding.job import ModelRows
from simverify.simulators.decoding.loop import lane_generator
from simverify.simulators.exact.laws import (
    TooManyCalls,
    laws_by_tree,
    markov_rows,
    tokens_after_calls,
)
from simverify.simulators.kernels.philox import ACCEPT, DRAFT
from simverify.simulators.latency import predicted_speedup
from simverify.simulators.run import (
    MAX_CONTEXT_CELLS,
    PIT_BINS,
    Counts,
    TokenSample,
    model_tables,
    simulate,
)
from simverify.simulators.trees import compiled_rules
from simverify.trees import Drafting, GrowingTree, TreeShape, draw_tree
from simverify.verifiers import VERIFIERS, Verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

MAX_GENERATIONS = 200_000  # generations behind the tokens after i calls

_EXACT_CALL_LEAVES = 30_000
"""Work limit for exact tokens after calls: drafted blocks times distinct calls."""

PYTHON_RULE_BLOCKS = 4_000  # calls of a readable rule that has no kernel, a second or so
CALL_GROUPS = 50  # groups of calls on ``ngram``; intervals come from their spread
_LP_ERROR = 1e-8  # possible error of a linear program's value, either way

Rule = Verifier | TreeVerifier | UserRule


class ModelComparison:
    """One model with all its rules: they share its tables, its exact laws and its bounds.

    ``drafting``: the trees of rules for trees; None where all judge a single draft. ``counted``:
    the trials of a single rule with a kernel, where they were counted already.

    Raises ``UsageError`` for a model on which no trees can be simulated.
    """

    def __init__(
        self,
        model: Model,
        drafting: Drafting | None,
        rules: Mapping[str, Rule],
        settings: documents.ComparisonSettings,
        say: Callable[[str], None],
        counted: sampled.CountFunction | None = None,
    ) -> None:
        self.model, self.drafting, self.rules = model, drafting, rules
        self.settings, self.say, self.counted = settings, say, counted
        self._runs: dict[str, tuple[tree_decoding.DecodedTrees, float]] = {}
        if drafting is not None and not isinstance(model, NgramModel):
            _check_tree_model(model)
            say(f"{model.name}: exact distributions")

    # Compute these before the tables: their scratch memory is as large, and both at once would be
    # too much.
    @cached_property
    def curves(self) -> dict[str, exact_curves.AcceptanceCurve]:
        """The exact curves of the rules for a single draft, and of block and greedy."""
        self.say(f"{self.model.name}: exact distributions")
        needed = {name: rule for name, rule in self.rules.items() if isinstance(rule, Verifier)}
        needed |= {name: VERIFIERS[name] for name in ("block", "greedy")}
        settings = self.settings
        return exact_curves.acceptance_curves(
            self.model, needed, settings.gamma, seed=settings.seed, threads=settings.threads
        )

    @cached_property
    def tables(self) -> Any:
        """The model as the kernels read it."""
        return model_tables(self.model)

    @cached_property
    def state_rows(self) -> StateRows:
        """The rows of a Markov model."""
        assert isinstance(self.model, MarkovModel)
        return StateRows.of(self.model)

    @property
    def trees(self) -> Drafting:
        """The trees of rules for trees."""
        assert self.drafting is not None
        return self.drafting

    @cached_property
    def bounds(self) -> TreeBounds:
        """The bounds that no lossless rule exceeds on the trees."""
        model, drafting = self.model, self.trees
        assert isinstance(model, MarkovModel)
        compute = partial(compute_tree_bounds, drafting, model, self.state_rows)
        return exact_curves.compute_once(model, drafting, compute)

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one call.

        ``given``: the name or file of the model in the request, if any.
        """
        if self.drafting is None:
            # Greedy's first call attains it (Sun et al. 2025, theorem 3).
            coupling = documents.expected_document(self.curves["greedy"])
        elif isinstance(self.model, NgramModel):
            coupling = coupling_document(self._first_run, self.drafting)
        else:
            coupling = _coupling_document(self.bounds)
        return documents.model_document(self.model, doc.Bounds(coupling), given)

    def row(self, rule: Rule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one rule; returns its row and its blocks per second."""
        on_trees = isinstance(rule, TreeVerifier) or rule.contract == "tree"
        shape = self.drafting.shape if on_trees and self.drafting is not None else None
        if isinstance(rule, TreeVerifier) and isinstance(self.model, NgramModel):
            return self._called_row(rule)
        self.say(f"{self.model.name}: {rule.name}")
        if isinstance(rule, UserRule):
            row, speed = judge_user_rule(
                rule,
                self.model,
                self._optimum(rule),
                self.settings,
                partial(self._speedup, shape=shape),
            )
        else:
            row, speed = self._sampled_row(rule, shape)
        return replace(row, one_draft=self.drafting is not None and not on_trees), speed

    def _optimum(self, rule: Rule) -> doc.Optimum:
        """Return the best that rules of this kind can do."""
        if isinstance(rule, TreeVerifier) or rule.contract == "tree":
            if isinstance(self.model, NgramModel):
                return tree_optimum_document(self.trees, self._first_run)
            best = self.bounds.memoryless
            return doc.Optimum("memoryless", best.value, best.by, best.bound)
        # Of a user's rule that drafts for itself only the bound on all rules is known.
        name: Literal["block", "coupling"] = "coupling" if rule.contract == "step" else "block"
        best_rule = "greedy" if name == "coupling" else "block"
        return doc.Optimum(name, self.curves[best_rule].expected)

    def _speedup(self, accepted: float, shape: TreeShape | None = None) -> doc.Speedup:
        """Return the latency model of ``accepted`` tokens a call."""
        settings, load = self.settings, self.settings.load
        ratio, gamma = settings.cost_ratio, settings.gamma
        return doc.Speedup(
            cost_ratio=ratio,
            predicted=predicted_speedup(accepted, gamma, ratio, load, shape=shape),
            batch_size=load.batch_size,
            free_rows=load.free_rows,
            rows=(gamma if shape is None else len(shape)) + 1,
        )

    def _sampled_row(
        self, rule: Verifier | TreeVerifier, shape: TreeShape | None
    ) -> tuple[doc.CompareResult, float]:
        """Judge a rule by its kernel, beside its exact law; without a kernel, call the rule."""
        settings, drafting = self.settings, None if shape is None else self.drafting
        law, optimum = self._law(rule), self._optimum(rule)
        step = rule.contract == "step"
        best = (
            self.curves["greedy" if step else "block"] if drafting is None else self.bounds.levels
        )
        called = drafting is not None and rule.name not in compiled_rules(drafting)
        trial = (PythonRuleTrial if called else sampled.KernelTrial)(
            rule,
            self.model,
            self.tables,
            settings.gamma,
            settings.seed,
            settings.threads,
            law.curve,
            best,
            settings.alpha,
            settings.detect,
            drafting=drafting,
            counted=None if called else self.counted,
        )
        blocks, generations, seconds = settings.blocks, None, 0.0
        calls = settings.calls > 0 and shape is None
        if called and shape is not None:
            most = max(PYTHON_RULE_BLOCKS // max(len(shape) // 16, 1), 100)
            blocks = min(blocks or most, most)
        wrong_law, exact = None, law.check
        if exact is not None and not exact_curves.is_exact(exact):
            wrong_law = (
                "the rule's exact distribution differs from the target's by TV "
                f"{exact.tv:.3g} ({exact.scope})"
            )
        first: Counts | None = None
        clock = time.perf_counter()
        if called and exact is not None:
            first = trial.run(blocks or 0)
            seconds = time.perf_counter() - clock
            # No code stands for the rule but the rule: only its law can be wrong.
            report = TestReport((), (), 0.0, doc.ANY_DEVIATION)
            lossless = documents.lossless_document(
                report, settings.detect, "exact", exact=exact, wrong_law=wrong_law
            )
            acceptance = documents.acceptance_document(
                sampled.NOT_JUDGED, settings.detect, "not judged, as no kernel stands for the rule"
            )
        else:
            trials = blocks or sampled.plan_trials(trial, calls=calls)
            if step:
                clock = time.perf_counter()
                first = trial.first_calls(blocks or sampled.plan_blocks(trial, calls=calls))
                seconds = time.perf_counter() - clock
            if calls:
                generations = self._generations(rule)
            check = sampled.sampled_check(trial, trials, first, generations)
            if first is None:
                first, seconds = check.counts, check.seconds
            lossless = documents.lossless_document(
                check.lossless,
                settings.detect,
                "sampled" if exact is None else "exact",
                exact=exact,
                wrong_law=wrong_law,
                certificate=lambda: check.certificate,
                pits=check.counts.pits,
            )
            acceptance = documents.acceptance_document(check.acceptance, settings.detect)
        tau = documents.measured_tau(first.accepted)
        if law.curve is None:
            expected, mean = (
                documents.interval_document(tau.ci_low, tau.ci_high, "measured"),
                tau.mean,
            )
        else:
            expected, mean = documents.expected_document(law.curve), law.curve.expected
        row = documents.result_document(
            self.model,
            rule.name,
            settings.gamma,
            lossless,
            acceptance,
            optimum,
            mean,
            expected_accepted=expected,
            measured=tau,
            acceptance_ccdf=documents.exact_curve_document(first.accepted, law.curve),
            speedup=self._speedup(mean, shape),
            calls=documents.after_calls(generations, settings.gamma) if generations else (),
            nodes=law.nodes,
            node_counts=trial.count_nodes(first.trials) if drafting is not None else None,
        )
        return row, first.trials / max(seconds, 1e-9)

    def _law(self, rule: Verifier | TreeVerifier) -> TreeCurve:
        model, settings = self.model, self.settings
        if isinstance(rule, TreeVerifier):
            assert isinstance(model, MarkovModel)
            return tree_curve(rule, self.trees, model, self.state_rows, seed=settings.seed)
        enumerable = exact_curves.is_enumerable(model, settings.gamma)
        exact = exact_curves.check_exactly(rule, model, settings.gamma) if enumerable else None
        return TreeCurve(self.curves[rule.name], None, exact)

    def _generations(self, rule: Verifier | TreeVerifier) -> sampled.GenerationLengths:
        """Run generations of many calls, and compute their lengths where the model allows it."""
        model, settings, gamma = self.model, self.settings, self.settings.gamma
        counts = simulate(
            self.tables,
            rule.name,
            gamma,
            min(settings.blocks or MAX_GENERATIONS, MAX_GENERATIONS),
            seed=settings.seed,
            threads=settings.threads,
            calls=settings.calls,
            eos=settings.eos,
        )
        exact = None
        if isinstance(model, MarkovModel) and exact_curves.is_enumerable(model, gamma):
            assert isinstance(rule, Verifier)
            laws = laws_by_tree(rule, markov_rows(model), gamma)
            budget = max(_EXACT_CALL_LEAVES // model.vocab_size**gamma, 1)
            with suppress(TooManyCalls):
                exact = tokens_after_calls(
                    laws, gamma, settings.calls, eos=settings.eos, max_laws=budget
                )
        return sampled.GenerationLengths(counts, exact, settings.eos is not None)

    # Readable rules for trees, called on ``ngram``, which has no kernels for them. Every call
    # begins at a text of its own and sees the same tree as the calls of the other rules.

    @cached_property
    def _model_rows(self) -> ModelRows:
        return ModelRows(self.model)

    @property
    def _first_run(self) -> tree_decoding.DecodedTrees:
        """The run of one rule, whose trees are those of all."""
        rules = [rule for rule in self.rules.values() if isinstance(rule, TreeVerifier)]
        return self._run(rules[0] if rules else TREE_VERIFIERS["match"])[0]

    def _called_row(self, rule: TreeVerifier) -> tuple[doc.CompareResult, float]:
        settings, drafting = self.settings, self.trees
        run, seconds = self._run(rule)
        row = decoded_row(self.model, rule, run, settings, drafting=drafting)
        speedup = self._speedup(row.block_efficiency - 1.0, drafting.shape)
        return replace(row, speedup=speedup), run.worth.blocks / seconds

    def _run(self, rule: TreeVerifier) -> tuple[tree_decoding.DecodedTrees, float]:
        """Call ``rule`` once for all; return the run, and its seconds.

        How many calls are counted and how many tokens are judged is fixed beforehand.
        """
        if rule.name in self._runs:
            return self._runs[rule.name]
        self.say(f"{self.model.name}: {rule.name}")
        settings, drafting = self.settings, self.trees
        tokens = output_tokens(settings.detect, settings.alpha)
        # Each call has a node at least whose step is judged, for which as many are enough.
        # Intervals are over groups, two of them at least.
        calls = max(settings.blocks or max(tokens, MIN_CALLS), CALL_GROUPS)
        left = settings.blocks or tokens
        seen = tree_decoding.TreeEmissionObserver(
            CALL_GROUPS, settings.seed, drafting, rule, nodes=calls // CALL_GROUPS
        )
        judge, clock = tree_decoding.StatelessTreeVerifier(rule.rule), time.perf_counter()
        for number in count():
            if number >= calls and not left:
                break
            call = self._call(number, judge, left)
            left -= len(call.block.emitted)
            if number < calls:
                seen(call)
            else:
                seen.complete(call.block)
        self._runs[rule.name] = seen.decoded, time.perf_counter() - clock
        return self._runs[rule.name]

    def _call(
        self, number: int, judge: tree_decoding.StatelessTreeVerifier, left: int
    ) -> tree_decoding.TreeBlock:
        """Draft a tree and judge it; ``left``: how many of the tokens may still count."""
        seed, rows = self.settings.seed, self._model_rows
        rng = lane_generator(seed, DRAFT, 0, number)
        prefix = rows.start(rng)
        growing = GrowingTree(self.trees, prefix).complete(rows.draft, rng)
        tree = growing.tree()
        drawn = tree_decoding.DrawnTree(
            tree, tuple(growing.kept), *(tree.rows(row, prefix) for row in rows.both)
        )
        coins = lane_generator(seed, ACCEPT, 0, number)
        tokens = judge.judge(tree, tree_decoding.tree_arguments(drawn), coins)
        return tree_decoding.TreeBlock.of(
            (number % CALL_GROUPS, 0, True), drawn, tokens, tokens[:left]
        )


@dataclass(frozen=True, eq=False)
class PythonRuleTrial(sampled.KernelTrial):
    """A readable rule for trees, called on drawn trees: slow, and without threads."""

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        accepted = np.zeros(self.gamma + 1, np.int64)
        lengths = np.zeros((2, 1), np.int64)
        transitions = np.zeros((positions, len(self.rows), self.cells), np.int64)
        for emitted, _ in _call_rule(self, trials, first_trial):
            accepted[len(emitted) - 1] += 1
            lengths[:, 0] += len(emitted), len(emitted) ** 2
            for position, (state, token) in enumerate(self._token_states(emitted)):
                transitions[position, state, token] += 1
        return Counts(
            trials, accepted, lengths, transitions, np.zeros((2, 0, PIT_BINS), np.int64), 0
        )

    def _sample(self, size: int, calls: int, positions: int) -> TokenSample:
        steps = [
            (state, token, position)
            for emitted, _ in _call_rule(self, size, 0)
            for position, (state, token) in enumerate(self._token_states(emitted))
        ][:size]
        states, tokens, places = np.array(steps, np.int64).T
        uniforms = np.random.default_rng([self.seed, 1]).random(len(steps))
        return TokenSample(states, tokens, places, uniforms)

    def count_nodes(self, trials: int) -> doc.NodeCounts:
        """Count the nodes that all calls kept."""
        assert self.drafting is not None
        counts = np.zeros(len(self.drafting.shape), np.int64)
        for _, way in _call_rule(self, trials, 0):
            counts[list(way)] += 1
        return doc.NodeCounts(calls=trials, kept=tuple(counts.tolist()))

    def _token_states(self, emitted: Text) -> Any:
        """Return each token with the row before it; that of no token is the last."""
        states = len(self.rows) - 1
        return zip([states, *(token % states for token in emitted[:-1])], emitted, strict=True)


# Cached: a second pass over the same calls counts the tokens.
@lru_cache(maxsize=1)
def _call_rule(
    trial: PythonRuleTrial, trials: int, first_trial: int
) -> tuple[tuple[Text, Text], ...]:
    """Return the tokens of each of ``trials`` calls after the empty prefix, and the nodes kept."""
    rng = np.random.default_rng([trial.seed, 0, first_trial])
    model: Any = trial.model
    assert trial.drafting is not None
    calls = []
    for _ in range(trials):
        tree = draw_tree(trial.drafting, model.draft, rng)
        rows = tree.rows(model.target), tree.rows(model.draft)
        arrays = np.array(tree.tokens), np.array(tree.shape.parents)
        emitted = tuple(map(int, trial.verifier.rule(*rows, *arrays, rng)))
        calls.append((emitted, map_nodes_to_shape(trial.drafting, tree, tree.way_of(emitted[:-1]))))
    return tuple(calls)


def _check_tree_model(model: Model) -> None:
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


def _coupling_document(bounds: TreeBounds) -> doc.Expected:
    best = bounds.coupling
    if best.by == "closed-form":
        return documents.expected_document(bounds.of_any or bounds.levels)
    if best.by == "linear-programme":
        low, high = max(best.value - _LP_ERROR, 0.0), best.value + _LP_ERROR
        return doc.Expected(best.value, None, low, high, best.by)
    return documents.interval_document(0.0, best.value, "counting", confidence=None)
