"""The exact law of code on one model, where it is small enough to be written out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simverify.arrays import Row
from simverify.auditing.exact.generations.calls import Beyond, Generation
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.generations.laws import law_of_generation
from simverify.auditing.exact.generations.steps import StepEnumeration
from simverify.auditing.exact.generations.trees import as_judged
from simverify.auditing.exact.judging.comparison import Comparison, deviation, hold
from simverify.auditing.exact.judging.law import compare_blocks, compare_tokens
from simverify.auditing.exact.judging.trees import compare_trees
from simverify.auditing.subject import Subject
from simverify.auditing.worth.asked import Asked, Verifying
from simverify.models.base import MarkovModel, Model
from simverify.simulators.decoding.called import ExactCall
from simverify.symbolic import Enumeration, Lift
from simverify.trees import Drafting

MAX_LEAVES = 256
"""Most drafted blocks V^gamma, or texts of as many tokens, for an exact law."""

MAX_PATHS = 40_000
SECONDS = 20.0
"""Of the exact law: processor seconds."""

_ROUNDING = 1e-12
"""More than the weights of a few thousand paths lose when they are added up."""


def exact_on(
    subject: Subject, contract: Verifying, asked: Asked
) -> tuple[ExactCall | None, tuple[str, ...]]:
    """Return the exact law, None where it cannot be had, and how the contract was broken."""
    model = asked.model
    if not isinstance(model, MarkovModel) or model.vocab_size**asked.gamma > MAX_LEAVES:
        return None, ()
    if subject.coin_bits is not None:
        return None, ()  # its coins are handed over, and are no draws to follow
    rule, contract = as_judged(subject.rule, contract, asked.drafting)
    on = _OnModel(rule, contract, asked)
    try:
        held = hold(on.compare, subject.tolerance)
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None, ()
    found = held.comparison
    broken = tuple(f.message for f in found.findings if f.severity == "violation")
    deviates = found.complete and deviation(found) > held.tolerance
    # What was not run may hold what is missing: the law is not known well enough then.
    undecided = not deviates and found.max_abs_deviation > held.tolerance
    accepted = found.expected_accepted
    if broken or not found.complete or undecided or accepted is None:
        return None, broken
    length = asked.gamma + 1
    scope = f"first {length} tokens, over calls" if contract == "step" else "a call's tokens"
    exact = ExactCall(
        scope=f"{scope} after the empty prefix",
        accepted=accepted,
        uncertain=found.pruned * asked.gamma + _ROUNDING,
        max_abs_deviation=found.max_abs_deviation,
        tv=found.tv,
        tolerance=held.tolerance,
        deviates=deviates,
    )
    return exact, ()


@dataclass
class _OnModel:
    """The laws of one rule on a model, as an instance of an audit is judged."""

    rule: Callable[..., Any]
    contract: Verifying
    asked: Asked

    def compare(self, lift: Lift | None) -> Comparison:
        """Return the law of a call, or of a generation's first tokens, against the target's."""
        asked, model = self.asked, self.asked.model
        if self.contract == "step":
            steps = StepEnumeration(self.rule, lift=lift)
            with steps:
                length = asked.gamma + 1
                law = law_of_generation(
                    steps, self.rule,
                    Generation(model.target, model.draft, asked.gamma, length),
                    max_paths=MAX_PATHS, seconds=SECONDS,
                    beyond=Beyond(every_way=False, due=False),
                )  # fmt: skip
                return compare_tokens(law, model.target, accepted=law.accepted)
        with Enumeration(self.rule, lift=lift) as enumeration:
            if self.contract == "tree":
                assert asked.drafting is not None
                return compare_trees(
                    enumeration, self.rule, _TreeModel(model, asked.drafting),
                    max_paths=MAX_PATHS, seconds=SECONDS,
                )  # fmt: skip
            return compare_blocks(
                enumeration, self.rule, model, asked.gamma,
                max_paths=MAX_PATHS, seconds=SECONDS,
            )  # fmt: skip


@dataclass(frozen=True)
class _TreeModel:
    """A model of which trees are drafted."""

    model: Model
    drafting: Drafting

    @property
    def gamma(self) -> int:
        return self.drafting.shape.depth

    def target(self, prefix: Sequence[int]) -> Row:
        return self.model.target(prefix)

    def draft(self, prefix: Sequence[int]) -> Row:
        return self.model.draft(prefix)
