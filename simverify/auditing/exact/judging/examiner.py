"""The code's exact law on one instance, whether it is the target's, and which ones decide."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from simverify.auditing.exact.coins.coin_blocks import compare_coins
from simverify.auditing.exact.coins.coin_errors import NOT_BISECTED, TooManyCalls
from simverify.auditing.exact.generations.calls import NOWHERE, Beyond, Generation
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.generations.generation import ending
from simverify.auditing.exact.generations.laws import law_of_generation
from simverify.auditing.exact.generations.steps import StepEnumeration
from simverify.auditing.exact.generations.trees import takes_tree_arguments, tree_as_step
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import EVERY_WAY
from simverify.auditing.exact.judging.comparison import (
    Comparison,
    Held,
    deviation,
    hold,
    hold_reported,
)
from simverify.auditing.exact.judging.drafts import compare_drafts
from simverify.auditing.exact.judging.law import compare_blocks, compare_tokens
from simverify.auditing.exact.judging.trees import compare_trees
from simverify.auditing.subject import Contract, Subject
from simverify.options.parts import Sizes
from simverify.symbolic import Enumeration, Lift
from simverify.symbolic.enumeration.effort import charged_to

MAX_PATHS = 60_000
"""Paths of the whole battery."""

SECONDS = Sizes.seconds
"""Limit of the exact tier; it only aborts, to INCONCLUSIVE. Processor seconds, where the code
does not sleep: a busy machine changes no verdict."""

WIDTH = 1e-6
"""Of code whose paths have no end a law is known within an interval; it may be so wide."""

STEP_PATHS = 4_000
"""Most paths of one instance under the step contract."""


@dataclass(frozen=True)
class Judged:
    """One instance and the code's exact law on it."""

    model: SmallModel
    comparison: Comparison
    violated: bool
    deviates: bool
    undecided: bool
    held: Held

    @property
    def failed(self) -> bool:
        """Whether the code broke its contract, or its law is not the target's."""
        return self.violated or self.deviates


@dataclass(frozen=True)
class Examiner:
    """Enumerates the subject on instances and compares its law with the target's.

    ``enumeration``: one that is already set up for the rule; without it each instance pays
    for its own. ``leaves``: how many such a one has seen, which need not be
    looked at again for untracked randomness. ``enough``: the mass that may be left out of a law
    whose paths have no end. ``beyond``: which calls are made beyond the first tokens; None: on
    the core, and on instances like it, those after each way in which earlier ones can end.
    ``lifted``: what follows the code as lifted, once it was needed. Examiners that differ in
    their budgets alone share it.
    """

    subject: Subject
    contract: Contract
    tolerance: float | None = None
    max_paths: int = MAX_PATHS
    enumeration: Enumeration | None = None
    leaves: int = 0
    enough: float | None = None
    beyond: Beyond | None = None
    lifted: dict[Lift, Enumeration] = field(default_factory=dict, compare=False, repr=False)

    def judge(self, model: SmallModel, seconds: float | None = SECONDS) -> Judged:
        """Exact law on one instance. Raises as :mod:`~.exact.generations.enumerate` does."""
        holding = hold_reported if self.contract == "draft" else hold
        held = holding(lambda lift: self.compare(model, seconds, lift), self.tolerance)
        comparison = held.comparison
        violated = any(finding.severity == "violation" for finding in comparison.findings)
        # What was not run may lie anywhere: it fails nobody, and it passes nobody.
        # What was lost broke the contract: it is a finding, and no law.
        # A law of which the code let us see no more than a part deviates from nothing.
        deviates = comparison.complete and deviation(comparison) > held.tolerance
        within = held.tolerance
        if self.enough is not None and self.tolerance is None:
            within = max(within, WIDTH)
        undecided = not deviates and comparison.max_abs_deviation - comparison.lost > within
        return Judged(model, comparison, violated, deviates, undecided, held)

    def compare(
        self, model: SmallModel, seconds: float | None, lift: Lift | None = None
    ) -> Comparison:
        """Return the law on one instance, of code that computes with types lifted to float64."""
        rule = self.subject.rule
        if self.subject.coin_bits is not None:
            return compare_coins(
                rule,
                model,
                model.gamma,
                bits=self.subject.coin_bits,
                tolerance=self.tolerance,
                max_calls=self.max_paths,
                coins=self.subject.coins,
                seconds=seconds,
            )
        with ExitStack() as stack:
            enumeration = None if lift else self.enumeration
            if enumeration is None:
                if self.enumeration is not None:
                    # Before another is set up: that takes real generators.
                    self.enumeration.release()
                enumeration = self._another(lift)
                if self.enumeration is not None:
                    payer = self.enumeration.source
                    stack.enter_context(charged_to(payer, enumeration.source))
                stack.enter_context(enumeration)
            enumeration.source.sites.learn()
            if isinstance(enumeration, StepEnumeration):
                return self._compare_tokens(enumeration, rule, model, seconds)
            if model.drafting is not None:
                compare = compare_drafts if self.contract == "draft" else compare_trees
                return compare(
                    enumeration, rule, model, tolerance=self.tolerance,
                    max_paths=self.max_paths, seconds=seconds, enough=self.enough,
                )  # fmt: skip
            return compare_blocks(
                enumeration,
                rule,
                model,
                model.gamma,
                tolerance=self.tolerance,
                max_paths=self.max_paths,
                seconds=seconds,
                enough=self.enough,
            )

    def _another(self, lift: Lift | None) -> Enumeration:
        """Return what follows the rule for itself; of lifted code what did so before, if any.

        What has looked for untracked randomness on one instance need not on the next.
        """
        if lift is None or lift not in self.lifted:
            made = enumeration_of(self.subject, self.contract, self.leaves, lift)
            if lift is None or self.enumeration is None:
                return made
            self.lifted[lift] = made
        return self.lifted[lift]

    def _compare_tokens(
        self,
        enumeration: StepEnumeration,
        rule: Callable[..., Any],
        model: SmallModel,
        seconds: float | None,
    ) -> Comparison:
        if model.drafting is not None:
            rule = tree_as_step(rule, model.drafting)
        target = ending(model.target, model.eos)
        law = law_of_generation(
            enumeration,
            rule,
            Generation(
                model.target, model.draft, model.gamma, output_length(model, "step"),
                model.prompt, model.earlier_calls, model.eos,
            ),
            max_paths=min(self.max_paths, STEP_PATHS) if model.drafting is None else self.max_paths,
            seconds=seconds,
            beyond=self.beyond or _beyond(model),
            enough=self.enough,
        )  # fmt: skip
        return compare_tokens(
            law, lambda tokens: target(model.prompt + tokens),
            tolerance=self.tolerance, accepted=law.accepted,
        )  # fmt: skip

    def fails(self, model: SmallModel) -> bool:
        """Whether the code fails on ``model``; what cannot be enumerated does not count."""
        try:
            return self.judge(model).failed
        except (CannotEnumerate, *NOT_BISECTED, OutOfTime, TooManyCalls, TooManyPaths):
            return False


def _beyond(model: SmallModel) -> Beyond:
    if model.drafting is not None and not model.core:
        return NOWHERE  # trees are many, and what an object hides shows on the core
    return Beyond(every_way=model.core or model.name in EVERY_WAY, due=model.core)


def enumeration_of(
    subject: Subject, contract: Contract, leaves: int = 0, lift: Lift | None = None
) -> Enumeration:
    """Return what follows the subject's rule, for any number of instances."""
    if generates(subject, contract):
        return StepEnumeration(subject.rule, leaves=leaves, lift=lift)
    return Enumeration(subject.rule, seed_once=contract == "draft", leaves=leaves, lift=lift)


def generates(subject: Subject, contract: Contract) -> bool:
    """Whether it is judged over generations: what drafts itself, and objects for draft trees."""
    return contract == "step" or (contract == "tree" and not takes_tree_arguments(subject.rule))


def output_length(model: SmallModel, contract: Contract) -> int:
    """How many tokens of the output are compared on ``model``."""
    if contract == "step" and model.gamma > 2:
        # A rule that drafts itself has every block of every call on its paths.
        few = (model.vocab_size == 2 or model.certain_drafts) and not model.earlier_calls
        if not few:
            return 2
    return model.gamma + 1
