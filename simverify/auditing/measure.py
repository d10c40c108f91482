"""What code accepts on a model, measured or exact, and its tokens with their rows."""

import inspect
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from simverify.auditing.comparison import (
    Comparison,
    assess_precision,
    certain_deviation,
    compare_blocks,
    compare_tokens,
)
from simverify.auditing.enumeration import (
    ExtraCalls,
    Generation,
    StepEnumeration,
    enumerate_generation,
)
from simverify.auditing.real_models import BlockCaller, StepCaller, TreeCaller
from simverify.auditing.sampled_runs import ContractMisuse
from simverify.auditing.sandbox import seeded_global_generators, suppress_warnings
from simverify.auditing.subject import Subject
from simverify.auditing.trees import as_enumerable, compare_trees, tree_arguments
from simverify.errors import UsageError
from simverify.models import Model
from simverify.models.base import MarkovModel
from simverify.simulators.decoding.job import ModelRows, TokenSums
from simverify.simulators.decoding.loop import Block, ExactCall, RuleCalls
from simverify.simulators.run import Features
from simverify.symbolic import Enumeration, Float64Promotion
from simverify.symbolic.engine import Budget
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.provenance import CannotEnumerate, OutOfTime
from simverify.symbolic.watchdog import contain_process
from simverify.trees import Drafting, draw_tree

# The workload: what code is asked on a model, and under which contract.


VerifierContract = Literal["verify", "step", "tree"]
Rng = np.random.Generator


@dataclass(frozen=True)
class Workload:
    """What the code is asked on ``model``: drafts of ``gamma`` tokens, or trees by ``drafting``.

    ``calls``: how many calls are counted, ``tokens``: how many of the tokens are judged; both are
    fixed beforehand, and calls are made until both are full.
    """

    model: Model
    gamma: int
    calls: int
    tokens: int
    seed: int
    drafting: Drafting | None = None


def workload_contract(subject: Subject) -> VerifierContract:
    """Return the contract that the code says, or that its parameters tell.

    Raises ``UsageError`` where they tell none, and for code that only drafts or takes batches.
    """
    if subject.contract == "draft":
        raise UsageError(f"{subject.name} is a drafter: expected a verifier")
    if subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: expected one block a call")
    if subject.contract is not None:
        return subject.contract
    if inspect.isclass(subject.rule):
        return "tree" if callable(getattr(subject.rule, "tree", None)) else "step"
    try:
        parameters = inspect.signature(subject.rule).parameters.values()
    except (TypeError, ValueError):
        raise UsageError(
            f"{subject.name} does not say what it takes: expected a function with parameters"
        ) from None
    if not parameters:
        return "step"  # what builds an object
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.default is p.empty and p.kind in named]
    if len(required) == 4:
        if required[0].name == "prefix":
            raise UsageError(f"{subject.name} is a drafter: expected a verifier")
        return "verify"
    if len(required) == 5:
        return "tree" if "parents" in required[3].name else "step"
    raise UsageError(
        f"{subject.name} takes {len(required)} arguments: expected verify(target_probs, "
        "draft_probs, draft_tokens, rng), step(prefix, target, draft, gamma, rng) or "
        "tree(target_probs, draft_probs, tokens, parents, rng)"
    )


# The exact law of code on one model, where it is small enough to be written out.


MAX_DRAFT_BLOCKS = 256
"""Most drafted blocks V^gamma, or texts of as many tokens, for an exact law."""

WORKLOAD_BUDGET = Budget(40_000, 20.0)
"""Budget of the exact law."""

_MAX_PATH_ROUNDING = 1e-12
"""More than the weights of a few thousand paths lose when they are added up."""


def exact_workload_law(
    subject: Subject, contract: VerifierContract, workload: Workload
) -> tuple[ExactCall | None, tuple[str, ...]]:
    """Return the exact law, None where it cannot be had, and how the contract was broken."""
    model = workload.model
    if not isinstance(model, MarkovModel) or model.vocab_size**workload.gamma > MAX_DRAFT_BLOCKS:
        return None, ()
    if subject.coin_bits is not None:
        return None, ()  # its coins are handed over, and are no draws to follow
    rule, contract = as_enumerable(subject.rule, contract, workload.drafting)
    compare = partial(_compare_workload, rule, contract, workload)
    try:
        held = assess_precision(compare, subject.tolerance)
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None, ()
    comparison = held.comparison
    broken = tuple(f.message for f in comparison.findings if f.severity == "violation")
    deviates = comparison.complete and certain_deviation(comparison) > held.tolerance
    # Branches that were not run may explain it: then the law is not known well enough.
    undecided = not deviates and comparison.max_abs_deviation > held.tolerance
    accepted = comparison.expected_accepted
    if broken or not comparison.complete or undecided or accepted is None:
        return None, broken
    length = workload.gamma + 1
    scope = f"first {length} tokens, over calls" if contract == "step" else "a call's tokens"
    exact = ExactCall(
        scope=f"{scope} after the empty prefix",
        accepted=accepted,
        uncertain=comparison.pruned * workload.gamma + _MAX_PATH_ROUNDING,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        tolerance=held.tolerance,
        deviates=deviates,
    )
    return exact, ()


def _compare_workload(
    rule: Callable[..., Any],
    contract: VerifierContract,
    workload: Workload,
    lift: Float64Promotion | None,
) -> Comparison:
    """Return the law of a call, or of a generation's first tokens, against the target's."""
    model, drafting = workload.model, workload.drafting
    if contract == "step":
        with (steps := StepEnumeration(rule, lift=lift)):
            generation = Generation(model.target, model.draft, workload.gamma, workload.gamma + 1)
            beyond = ExtraCalls(every_way=False, due=False)
            law = enumerate_generation(steps, rule, generation, WORKLOAD_BUDGET, beyond=beyond)
            return compare_tokens(law, model.target, accepted=law.accepted)
    with Enumeration(rule, lift=lift) as enumeration:
        if contract == "tree":
            assert drafting is not None
            return compare_trees(enumeration, rule, model, drafting, budget=WORKLOAD_BUDGET)
        return compare_blocks(enumeration, rule, model, workload.gamma, budget=WORKLOAD_BUDGET)


def measure_calls(subject: Subject, contract: VerifierContract, workload: Workload) -> RuleCalls:
    """Return the exact law of ``subject`` on a model, if it can be had, and what calls emit."""
    with contain_process():
        exact, broken = exact_workload_law(subject, contract, workload)
        rule = subject.generator_rule()
        counted = _CallCounter(*as_enumerable(rule, contract, workload.drafting), workload)
        clock = time.perf_counter()
        if not broken:
            try:
                with seeded_global_generators(workload.seed), suppress_warnings():
                    counted.run()
            except ContractMisuse as misuse:
                broken = (str(misuse),)
        seconds = time.perf_counter() - clock
        return RuleCalls(counted.accepted, counted.features, exact, broken, seconds)


class _CallCounter:
    """Calls of one rule on drafts of a model, and what is counted of them."""

    def __init__(
        self, rule: Callable[..., Any], contract: VerifierContract, workload: Workload
    ) -> None:
        self._rule, self._contract, self._workload = rule, contract, workload
        depth = workload.gamma if workload.drafting is None else workload.drafting.shape.depth
        self.accepted = np.zeros(depth + 1, np.int64)
        self._left = workload.tokens
        self._sums = TokenSums(
            gamma=depth, lanes=1, seed=workload.seed, by_slot=contract == "verify"
        )
        self._rows = ModelRows(workload.model)

    @property
    def features(self) -> Features | None:
        """Features of the tokens so far, None without any."""
        return self._sums.features if self._left < self._workload.tokens else None

    def run(self) -> None:
        """Make all calls; raises ``Misuse`` where the code breaks its contract."""
        calls = {"verify": self._block, "step": self._generation, "tree": self._tree}
        call, workload = calls[self._contract], self._workload
        for number in itertools.count():
            drafting, rng = (
                Rng(np.random.Philox(key=workload.seed, counter=[0, 0, number, stream]))
                for stream in (1, 2)
            )
            prefix = self._rows.start(drafting)
            tokens, tau = call(prefix, drafting, rng)
            if number < workload.calls:
                # A rule that drafts for itself may accept more than gamma tokens.
                if (missing := tau + 1 - len(self.accepted)) > 0:
                    self.accepted = np.pad(self.accepted, (0, missing))
                self.accepted[tau] += 1
            if head := tokens[: self._left]:
                self._left -= len(head)
                ends = [prefix + head[:i] for i in range(len(head))]
                p, q = (np.array([row(end) for end in ends]) for row in self._rows.both)
                self._sums.add(Block(0, 0, True, p, q, (), 0, head))
            if not self._left and number + 1 >= workload.calls:
                return

    def _block(self, prefix: Tokens, drafting: Rng, rng: Rng) -> tuple[Tokens, int]:
        text = prefix
        p, q = [self._rows.target(text)], []
        for u in drafting.random(self._workload.gamma):
            q.append(self._rows.draft(text))
            text = (*text, self._rows.drafted(text, u))
            p.append(self._rows.target(text))
        caller = BlockCaller(self._rule, self._workload.model.vocab_size)
        tokens = tuple(caller.judge(0, np.array(p), np.array(q), text[len(prefix) :], rng))
        return tokens, len(tokens) - 1

    def _tree(self, prefix: Tokens, drafting: Rng, rng: Rng) -> tuple[Tokens, int]:
        assert self._workload.drafting is not None
        target, draft = (lambda text, row=row: row(prefix + text) for row in self._rows.both)
        tree = draw_tree(self._workload.drafting, draft, drafting)
        caller = TreeCaller(self._rule, self._workload.model.vocab_size)
        tokens = caller.judge(tree, tree_arguments(tree, target, draft), rng)
        return tokens, len(tokens) - 1

    def _generation(self, prefix: Tokens, _: Rng, rng: Rng) -> tuple[Tokens, int]:
        gamma, length = self._workload.gamma, 2 * self._workload.gamma
        caller = StepCaller(self._rule, self._workload.model.vocab_size)
        caller.reset()
        # The code under audit may write into a row.
        target, draft = (lambda text, row=row: row(tuple(text)).copy() for row in self._rows.both)
        first = tokens = caller.step(prefix, target, draft, gamma, rng)
        while len(tokens) < length:
            tokens += caller.step(prefix + tokens, target, draft, gamma, rng)
        return tokens[:length], len(first) - 1
