"""The exact tier of an audit: the battery, the search, the smallest counterexample."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from simverify.audit.board import doing
from simverify.audit.coin_blocks import compare_coins
from simverify.audit.coins import NotMonotone, TooManyCalls
from simverify.audit.enumerate import (
    CannotEnumerate,
    ExactLaw,
    OutOfTime,
    TooManyPaths,
    enumerate_step,
)
from simverify.audit.generation import ending
from simverify.audit.instances import SmallModel
from simverify.audit.law import Comparison, compare_blocks, compare_tokens
from simverify.audit.precision import Held, deviation, hold
from simverify.audit.search import search
from simverify.audit.spec import Contract, Subject
from simverify.audit.symbolic import Enumeration, Lift
from simverify.audit.symbolic.watchdog import Stopwatch

MAX_PATHS = 60_000
"""Paths of the whole battery."""

TORCH_PATHS = 15_000
"""The same where torch is used, whose paths take ten times as long."""

SECONDS = 60.0
"""Limit of the exact tier; it only aborts, to INCONCLUSIVE. Processor seconds, where the code
does not sleep: a busy machine changes no verdict."""

SEARCH_EXAMPLES = 60
SEARCH_PATHS = 600
"""Paths of one instance in the search: larger ones are not asked, unless one failed."""

_STEP_PATHS = 4_000
_MOST_PRUNED = 1e-6
"""Mass of rounding-size branches that a pass may leave out."""


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


@dataclass
class ExactTier:
    """What the exact tier found.

    ``judged``: instances that were enumerated, in order. ``failure``: the smallest one that
    failed. ``not_enumerable``: the first thing that could not be followed. ``skipped``:
    instances that did not fit the budget. ``aborted``: why the tier ended early.
    """

    judged: list[Judged] = field(default_factory=list)
    failure: Judged | None = None
    not_enumerable: CannotEnumerate | None = None
    skipped: list[SmallModel] = field(default_factory=list)
    aborted: str | None = None

    @property
    def held(self) -> Held | None:
        """What the instance with the coarsest precision is held to."""
        return max((x.held for x in self.judged), key=lambda held: held.tolerance, default=None)

    @property
    def paths(self) -> int:
        """Paths run on the battery."""
        return sum(judged.comparison.paths for judged in self.judged)


@dataclass(frozen=True)
class Examiner:
    """Enumerates the subject on instances and compares its law with the target's.

    ``enumeration``: one that is already set up for a ``verify`` rule; without it each
    instance pays for its own. ``leaves``: how many such a one has seen, which need not be
    looked at again for untracked randomness.
    """

    subject: Subject
    contract: Contract
    tolerance: float | None = None
    max_paths: int = MAX_PATHS
    enumeration: Enumeration | None = None
    leaves: int = 0

    def judge(self, model: SmallModel, seconds: float | None = SECONDS) -> Judged:
        """Exact law on one instance. Raises as :mod:`simverify.audit.enumerate` does."""
        held = hold(lambda lift: self._compare(model, seconds, lift), self.tolerance)
        comparison = held.comparison
        violated = any(finding.severity == "violation" for finding in comparison.findings)
        # What was not run may lie anywhere: it fails nobody, and it passes nobody.
        # What was lost broke the contract: it is a finding, and no law.
        deviates = deviation(comparison) > held.tolerance
        undecided = comparison.pruned > max(10 * held.tolerance, _MOST_PRUNED)
        return Judged(model, comparison, violated, deviates, undecided, held)

    def _compare(self, model: SmallModel, seconds: float | None, lift: Lift | None) -> Comparison:
        rule = self.subject.rule
        if self.subject.coin_bits is not None:
            return compare_coins(
                rule,
                model,
                model.gamma,
                bits=self.subject.coin_bits,
                tolerance=self.tolerance,
                max_calls=self.max_paths,
            )
        if self.contract == "verify":
            with ExitStack() as stack:
                enumeration = None if lift else self.enumeration
                if enumeration is None:
                    if self.enumeration is not None:
                        self.enumeration.release()
                    enumeration = Enumeration(rule, leaves=self.leaves, lift=lift)
                    stack.enter_context(enumeration)
                return compare_blocks(
                    enumeration,
                    rule,
                    model,
                    model.gamma,
                    tolerance=self.tolerance,
                    max_paths=self.max_paths,
                    seconds=seconds,
                )
        length = output_length(model, "step")
        law = enumerate_step(
            rule,
            model.target,
            model.draft,
            gamma=model.gamma,
            length=length,
            prefix=model.prompt,
            earlier_calls=model.earlier_calls,
            eos=model.eos,
            max_paths=min(self.max_paths, _STEP_PATHS),
            seconds=seconds,
            lift=lift,
        )
        target = ending(model.target, model.eos)
        return compare_tokens(
            _filled(law, model.eos, length),
            target,
            length,
            prefix=model.prompt,
            tolerance=self.tolerance,
        )

    def fails(self, model: SmallModel) -> bool:
        """Whether the code fails on ``model``; what cannot be enumerated does not count."""
        try:
            return self.judge(model).failed
        except (CannotEnumerate, NotMonotone, OutOfTime, TooManyCalls, TooManyPaths):
            return False


def _filled(law: ExactLaw, eos: int | None, length: int) -> ExactLaw:
    """Return ``law`` with generations that ``eos`` ended filled up with it."""
    if eos is None:
        return law
    filled = {
        tokens + (eos,) * (length - len(tokens)): mass for tokens, mass in law.probabilities.items()
    }
    return replace(law, probabilities=filled)


def output_length(model: SmallModel, contract: Contract) -> int:
    """How many tokens of the output are compared on ``model``."""
    if contract == "verify" or model.gamma <= 2:
        return model.gamma + 1
    # A rule that drafts itself has every block of every call on its paths.
    few = (model.vocab_size == 2 or model.certain_drafts) and not model.earlier_calls
    return model.gamma + 1 if few else 2


def examine(
    subject: Subject,
    contract: Contract,
    models: Iterable[SmallModel],
    *,
    tolerance: float | None,
    max_paths: int = MAX_PATHS,
    seconds: float = SECONDS,
    seed: int = 0,
    searching: bool = True,
) -> ExactTier:
    """Put ``subject`` on every instance, smallest first, and stop at the first that fails.

    After a failure Hypothesis looks for a smaller one; after a clean battery it looks for
    one the battery does not have; unless ``searching`` is false.
    """
    tier = ExactTier()
    with ExitStack() as stack:
        enumeration = None
        if contract == "verify" and subject.coin_bits is None:
            enumeration = stack.enter_context(Enumeration(subject.rule))
        _run_battery(
            tier,
            lambda paths: Examiner(subject, contract, tolerance, paths, enumeration),
            models,
            max_paths,
            seconds,
        )
    # A broken contract needs no smaller instance, and broken code may be slow to search with.
    broken = tier.failure is not None and not tier.failure.deviates
    if searching and not broken and tier.not_enumerable is None and tier.aborted is None:
        # Not in the battery's enumeration: Hypothesis draws random numbers of its own.
        leaves = 0 if enumeration is None else enumeration.leaves
        _search(
            tier,
            lambda paths: Examiner(subject, contract, tolerance, paths, leaves=leaves),
            contract,
            seed,
        )
    return tier


def _run_battery(
    tier: ExactTier,
    examiner_for: Callable[[int], Examiner],
    models: Iterable[SmallModel],
    max_paths: int,
    seconds: float,
) -> None:
    watch = Stopwatch()
    rest = list(models)
    while rest:
        model = rest.pop(0)
        examiner = examiner_for(max_paths - tier.paths)
        left = seconds - watch.seconds()
        if left <= 0:
            tier.aborted = f"the limit of {seconds:g} s passed"
            return
        doing(f"the exact tier on {model.name}")
        try:
            judged = examiner.judge(model, left)
        except CannotEnumerate as error:
            tier.not_enumerable = error
            return
        except NotMonotone as error:
            tier.not_enumerable = CannotEnumerate(f"coins: {error}")
            return
        except OutOfTime:
            tier.aborted = f"the limit of {seconds:g} s passed"
            return
        except (TooManyPaths, TooManyCalls):
            # The models come by size: what follows would not fit either.
            tier.skipped.append(model)
            if tier.judged and examiner.max_paths < max_paths / 2:
                tier.skipped += rest
                return
            continue
        tier.judged.append(judged)
        if judged.failed:
            tier.failure = judged
            return


def _search(
    tier: ExactTier, examiner_for: Callable[[int], Examiner], contract: Contract, seed: int
) -> None:
    if not tier.judged:
        return
    failure = tier.failure
    paths = 2 * failure.comparison.paths if failure else 0
    examiner = examiner_for(max(SEARCH_PATHS, paths))
    doing("the search for a counterexample")
    found = search(
        examiner.fails,
        max_vocab=failure.model.vocab_size if failure else 3 if contract == "verify" else 2,
        max_gamma=failure.model.gamma if failure else 2,
        examples=SEARCH_EXAMPLES,
        seed=seed,
    )
    if found is not None:
        judged = examiner.judge(found)
        # What fails on a replay too, and is no larger: the counterexample to show.
        if judged.failed:
            tier.failure = judged
            tier.judged.append(judged)


def uses_torch(rule: Callable[..., Any]) -> bool:
    """Whether torch is among the names that the code sees."""
    module = sys.modules.get(getattr(rule, "__module__", ""), None)
    names = {**(vars(module) if module else {}), **getattr(rule, "__globals__", {})}
    return any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "torch"
        for value in names.values()
    )


def as_step(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ``verify`` rule as a ``step`` rule that drafts from the draft itself."""

    def step(
        prefix: Sequence[int],
        target: Callable[[tuple[int, ...]], Any],
        draft: Callable[[tuple[int, ...]], Any],
        gamma: int,
        rng: Any,
    ) -> Any:
        context = tuple(prefix)
        p, q, tokens = [target(context)], [], []
        for _ in range(gamma):
            q.append(draft(context))
            tokens.append(int(rng.choice(len(q[-1]), p=q[-1])))
            context = (*context, tokens[-1])
            p.append(target(context))
        return verify(np.array(p), np.array(q), np.array(tokens), rng)

    return step
