"""Rules for draft trees on a model without kernels for them: the readable rules, called.

Every call begins at a text of its own and sees the same tree as those of the other rules.
"""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count

import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.by_position import output_tokens
from simverify.comparing.kernels.kernel import Counted
from simverify.comparing.model import ModelComparison, Settings, model_info, speedup_document
from simverify.comparing.own import FEWEST_CALLS, OwnRule, own_row
from simverify.comparing.real.tree_rows import coupling_bound, optimum_of, tree_row
from simverify.models import Model
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.decoding.loop import call_generator
from simverify.simulators.decoding.model_rows import ModelRows
from simverify.simulators.decoding.trees.emitted import DecodedTrees, TreesEmitted
from simverify.simulators.decoding.trees.loop import RuleOfTrees, TreeBlock, arguments
from simverify.simulators.decoding.trees.worth import Drawn
from simverify.simulators.kernels.philox import DRAFT
from simverify.trees import Drafting, Growing
from simverify.verifiers import Verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

LANES = 50
"""Groups of calls, from whose spread intervals are had."""


class CalledTrees:
    """One model with all rules for one tree and scheme.

    ``counted``: of a single rule for one draft, its trials where they were counted already.
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
        self.model, self.drafting, self.settings = model, drafting, settings
        self.alpha, self.say, self._rules, self._counted = alpha, say, rules, counted
        self._runs: dict[str, tuple[DecodedTrees, float]] = {}
        tokens = output_tokens(settings.detect, alpha)
        self._tokens = tokens if settings.blocks is None else settings.blocks
        # Each call has one node at least whose step is judged, for which as many are enough.
        calls = max(tokens, FEWEST_CALLS)
        # Intervals are over lanes, two of them at least.
        self._calls = max(calls if settings.blocks is None else settings.blocks, LANES)
        self._rows = ModelRows(model)

    @cached_property
    def _chains(self) -> ModelComparison:
        one_draft = {n: rule for n, rule in self._rules.items() if isinstance(rule, Verifier)}
        return ModelComparison(
            self.model, one_draft, self.settings, self.alpha, self.say, self._counted
        )

    @cached_property
    def _first(self) -> tuple[DecodedTrees, float]:
        """The run of one rule, whose trees are those of all."""
        rules = [rule for rule in self._rules.values() if isinstance(rule, TreeVerifier)]
        return self._run(rules[0] if rules else TREE_VERIFIERS["match"])

    def info(self, given: str | None) -> doc.ModelInfo:
        """Return the model's own entry, with the bound that no rule beats in one call."""
        return model_info(self.model, given, coupling_bound(self.drafting, self._first[0]))

    def row(self, verifier: Verifier | TreeVerifier | OwnRule) -> tuple[doc.CompareResult, float]:
        """Judge and measure one rule; returns its row and its calls per second."""
        if not isinstance(verifier, TreeVerifier) and verifier.contract != "tree":
            row, speed = self._chains.row(verifier)
            return replace(row, one_draft=True), speed
        settings, shape = self.settings, self.drafting.shape
        if isinstance(verifier, OwnRule):
            self.say(f"{self.model.name}: {verifier.name}")
            return own_row(
                verifier, self.model, optimum_of(self.drafting, self._first[0]),
                gamma=settings.gamma, blocks=settings.blocks, alpha=self.alpha,
                detect=settings.detect,
                speedup=lambda mean: speedup_document(mean, settings.gamma, settings, shape),
            )  # fmt: skip
        assert isinstance(verifier, TreeVerifier)
        seen, seconds = self._run(verifier)
        row = tree_row(
            self.model.name, self.model.vocab_size, verifier, self.drafting, seen,
            share=self.alpha, detect=settings.detect, cost_ratio=settings.cost_ratio,
        )  # fmt: skip
        kept = row.block_efficiency - 1.0
        predicted = speedup_document(kept, settings.gamma, settings, shape)
        return replace(row, speedup=predicted), seen.worth.blocks / seconds

    def _run(self, rule: TreeVerifier) -> tuple[DecodedTrees, float]:
        """Return what the calls of ``rule`` leave, and their seconds; of each rule they run once.

        ``_calls`` calls are counted and ``_tokens`` tokens judged, both fixed beforehand.
        """
        if rule.name in self._runs:
            return self._runs[rule.name]
        self.say(f"{self.model.name}: {rule.name}")
        seen = TreesEmitted(
            LANES, self.settings.seed, self.drafting, rule, nodes=self._calls // LANES
        )
        judge, left, clock = RuleOfTrees(rule.rule), self._tokens, time.perf_counter()
        for number in count():
            if number >= self._calls and not left:
                break
            call = self._call(number, judge, left)
            left -= len(call.block.emitted)
            if number < self._calls:
                seen(call)
            else:
                seen.complete(call)
        found = seen.decoded, time.perf_counter() - clock
        self._runs[rule.name] = found
        return found

    def _call(self, number: int, judge: RuleOfTrees, left: int) -> TreeBlock:
        """Draft a tree and judge it; ``left``: how many of the tokens may still count."""
        key = [self.settings.seed, DRAFT]
        rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, number, 0]))
        prefix = self._rows.start(rng)
        growing = Growing(self.drafting, prefix)
        for node, children in self.drafting.shape.children.items():
            if children and node in growing.text:
                growing.grow(node, self._rows.draft(growing.text[node]), rng)
        tree = growing.tree()
        rows = (tree.rows(row, prefix) for row in self._rows.both)
        drawn = Drawn(tree, tuple(growing.kept), *rows)
        found = judge.judge(tree, arguments(drawn), call_generator(key[0], 0, number))
        way, emitted = tree.way_of(found[:-1]), found[:left]
        at = [0, *(node + 1 for node in way)][: len(emitted)]
        block = Block(
            number % LANES, 0, True, drawn.p[at], drawn.q[at], (), len(found) - 1, emitted
        )
        return TreeBlock(block, drawn, found, way)
