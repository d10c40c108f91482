"""The exact tier of an audit: the battery, the search, the smallest counterexample."""

import math
import random
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from simverify.auditing.exact.battery import LARGEST, ExactTier, note_failure, run_battery
from simverify.auditing.exact.coins.coins import NotMonotone, TooManyCalls
from simverify.auditing.exact.generations.calls import NOWHERE
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights
from simverify.auditing.exact.judging.examiner import (
    MAX_PATHS,
    SECONDS,
    Examiner,
    enumeration_of,
)
from simverify.auditing.exact.judging.repeated import confirm
from simverify.auditing.exact.judging.rows import Part, failing_rows
from simverify.auditing.subject import Contract, Subject
from simverify.symbolic.enumeration.effort import effort_of
from simverify.symbolic.guards.watchdog import doing

TORCH_PATHS = 8_000
"""The same where torch is used, whose paths take ten times as long."""

_SEEN = 10_000
"""Leaves that count as seen: by then the code was looked at for untracked randomness."""

SEARCH_EXAMPLES = 60
SEARCH_PATHS = 600
"""Paths of one instance in the search: larger ones are not asked, unless one failed."""

SEARCH_BUDGET = 3_000
"""Effort of the whole search, after which instances that are new to it count as right; three
times as much to shrink a failure."""


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
    """Put ``subject`` on every instance, up to the first in the order of size that fails.

    After a failure Hypothesis looks for a smaller one; after a clean battery it looks for
    one the battery does not have; unless ``searching`` is false.
    """
    models = list(models)
    tier = ExactTier()
    with ExitStack() as stack:
        enumeration = None
        if subject.coin_bits is None:
            enumeration = stack.enter_context(enumeration_of(subject, contract))
        examiner = Examiner(subject, contract, tolerance, max_paths, enumeration)
        run_battery(
            tier,
            lambda paths: replace(examiner, max_paths=paths),
            models,
            max_paths,
            seconds,
        )
        # A broken contract needs no smaller instance, and broken code may be slow to search with.
        broken = tier.failure is not None and not tier.failure.deviates
        # Of trees there are too many for a search of many rows.
        searched = searching and contract not in ("tree", "draft")
        if searched and not broken and tier.not_enumerable is None and tier.aborted is None:
            _search(tier, examiner, contract, seed)
    # What a drafter does not read, the target's rows, needs no kinds.
    kinds = searching and contract != "draft"
    if kinds and tier.failure is not None and tier.failure.comparison.complete:
        doing("the rows that a failure needs")
        with enumeration_of(subject, contract, _SEEN) as enumeration:
            examiner = Examiner(subject, contract, tolerance, max_paths, enumeration, _SEEN)
            tier.rows = failing_rows(tier.failure, models, partly(examiner, seconds))
    return tier


def partly(examiner: Examiner, seconds: float) -> Callable[[list[SmallModel], bool], Part]:
    """Return what runs the tier on instances of one kind; the core alone where that will do."""

    def run(models: list[SmallModel], every: bool) -> Part:
        part = ExactTier()
        core = models if every else [model for model in models if model.is_small]
        most = examiner.max_paths // (2 if every else LARGEST)
        run_battery(part, lambda paths: replace(examiner, max_paths=paths), core, most, seconds)
        open_ = any(judged.undecided for judged in part.judged)
        stopped = part.not_enumerable is not None or part.aborted is not None or open_
        whole = not stopped and not any(model.is_small for model in part.skipped)
        return Part(tuple(part.judged), part.failure, whole)

    return run


def _search(tier: ExactTier, examiner: Examiner, contract: Contract, seed: int) -> None:
    if not tier.judged:
        return
    failure, enumeration = tier.failure, examiner.enumeration
    paths = 2 * failure.comparison.paths if failure else 0
    # What the code hides was looked for on the battery: what is new here are rows.
    beyond = None if failure else NOWHERE
    examiner = replace(examiner, max_paths=max(SEARCH_PATHS, paths), beyond=beyond)
    doing("the search for a counterexample")
    if enumeration is not None:
        enumeration.release()
    budget = SEARCH_BUDGET * (3 if failure else 1)
    spent = 0.0
    # Hypothesis asks for what it has found again; the answer must not depend on the budget.
    known: dict[SmallModel, bool] = {}

    def fails(model: SmallModel) -> bool:
        nonlocal spent
        if model in known or spent >= budget:
            return known.get(model, False)
        begun = effort_of(enumeration.source) if enumeration else 0.0
        paths = examiner.max_paths
        try:
            judged = examiner.judge(model)
            known[model], paths = judged.failed, judged.comparison.paths
        except OutOfTime:
            # Nor would the others end in time; a search that went on would take an hour.
            known[model], spent = False, math.inf
        except (CannotEnumerate, NotMonotone, TooManyCalls, TooManyPaths):
            known[model] = False
        if enumeration is not None:
            # Hypothesis draws random numbers of its own.
            enumeration.release()
        spent += effort_of(enumeration.source) - begun if enumeration else paths
        return known[model]

    found = search(
        fails,
        max_vocab=failure.model.vocab_size if failure else 3 if contract == "verify" else 2,
        max_gamma=failure.model.gamma if failure else 2,
        examples=SEARCH_EXAMPLES,
        seed=seed,
    )
    if found is None:
        return
    with suppress(CannotEnumerate, OutOfTime, TooManyPaths):
        judged = examiner.judge(found)
        if judged.failed:
            # What fails on a replay too, and is no larger: the counterexample to show.
            confirmed = confirm(examiner, judged)
            if confirmed.failure is not None or failure is None:
                note_failure(tier, confirmed)


def uses_torch(rule: Callable[..., Any]) -> bool:
    """Whether torch is among the names that the code sees."""
    module = sys.modules.get(getattr(rule, "__module__", ""), None)
    names = {**(vars(module) if module else {}), **getattr(rule, "__globals__", {})}
    return any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "torch"
        for value in names.values()
    )


def search(
    fails: Callable[[SmallModel], bool],
    *,
    max_vocab: int,
    max_gamma: int,
    examples: int,
    seed: int,
) -> SmallModel | None:
    """Return the simplest failing instance that Hypothesis finds and shrinks, if any.

    ``fails`` is asked for at most some multiple of ``examples`` instances with V up to
    ``max_vocab``, gamma up to ``max_gamma`` and integer weights up to 8, 50 or 1000; what is
    shrunk first is gamma, then V, the number of different rows, and the weights.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, NoSuchExample

    def weights(vocab: int) -> st.SearchStrategy[Weights]:
        row = st.tuples(*[st.integers(0, 8) | st.sampled_from([50, 1000])] * vocab)
        return row.filter(any)

    @st.composite
    def models(draw: Any) -> SmallModel:
        gamma = draw(st.integers(1, max_gamma))
        vocab = draw(st.integers(2, max_vocab))
        count = draw(st.integers(1, 4))
        rows = st.tuples(*[weights(vocab)] * count)
        return SmallModel(f"found, V={vocab}, gamma={gamma}", gamma, draw(rows), draw(rows))

    try:
        return find(
            models(),
            fails,
            settings=settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                verbosity=Verbosity.quiet,
                suppress_health_check=list(HealthCheck),
            ),
            random=random.Random(seed),
        )
    except (Flaky, NoSuchExample):
        # Code that fails now and then draws from something that is not followed.
        return None
