"""The exact tier of an audit: the battery, the search, the smallest counterexample."""

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from simverify.auditing.coverage.watch import Watch, current
from simverify.auditing.exact.battery import (
    LARGEST,
    ExactTier,
    is_beyond_a_limit,
    note_failure,
    run_battery,
)
from simverify.auditing.exact.coins.coin_errors import NOT_BISECTED, TooManyCalls
from simverify.auditing.exact.generations.calls import NOWHERE
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.examiner import (
    MAX_PATHS,
    SECONDS,
    Examiner,
    enumeration_of,
)
from simverify.auditing.exact.judging.repeated import confirm
from simverify.auditing.exact.judging.rows import Part, failing_rows
from simverify.auditing.exact.search import aimed, search, where_to_look
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

AIMED = 0.2
"""The part of it that is for what no instance of the battery has reached, and no more than this
part of what the battery took."""


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
            usual_paths(subject.rule),
        )
        # A broken contract needs no smaller instance, and broken code may be slow to search with.
        broken = tier.failure is not None and not tier.failure.deviates
        if searching and not broken and tier.not_enumerable is None and tier.aborted is None:
            _search(tier, examiner, models, seed)
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


def _search(tier: ExactTier, examiner: Examiner, models: list[SmallModel], seed: int) -> None:
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
    battery = effort_of(enumeration.source) if enumeration else tier.paths
    budget: float = 3 * SEARCH_BUDGET if failure else AIMED * min(SEARCH_BUDGET, battery)
    spent, found_one = 0.0, failure is not None
    # Hypothesis asks for what it has found again; the answer must not depend on the budget.
    known: dict[SmallModel, bool] = {}

    def fails(model: SmallModel) -> bool:
        nonlocal spent, budget, found_one
        if model in known or spent >= budget:
            return known.get(model, False)
        begun = effort_of(enumeration.source) if enumeration else 0.0
        paths = examiner.max_paths
        try:
            judged = examiner.judge(model)
            known[model] = judged.failed and not is_beyond_a_limit(judged)
            paths = judged.comparison.paths
        except OutOfTime:
            # Nor would the others end in time; a search that went on would take an hour.
            known[model], spent = False, math.inf
        except (CannotEnumerate, *NOT_BISECTED, TooManyCalls, TooManyPaths):
            known[model] = False
        if enumeration is not None:
            # Hypothesis draws random numbers of its own.
            enumeration.release()
        spent += effort_of(enumeration.source) - begun if enumeration else paths
        if known[model] and not found_one:
            found_one, budget = True, spent + 3 * SEARCH_BUDGET
        return known[model]

    start = failure.model if failure else None
    if start is None and (watch := current()) is not None:
        # The battery's instances for single numbers of the code are behind us.
        start = _aimed(fails, watch, examiner, models, seed, lambda: spent < budget)
    if not found_one:
        budget = SEARCH_BUDGET
    beyond_vocab = 3 if examiner.contract == "verify" else 2
    within = where_to_look(models, start, examiner.subject.fits, beyond=beyond_vocab)
    found = search(fails, within, examples=SEARCH_EXAMPLES, seed=seed)
    if found is None and failure is None:
        found = start
    if found is None:
        return
    with suppress(CannotEnumerate, *NOT_BISECTED, OutOfTime, TooManyPaths):
        judged = examiner.judge(found)
        if judged.failed:
            # What fails on a replay too, and is no larger: the counterexample to show.
            confirmed = confirm(examiner, judged)
            if confirmed.failure is not None or failure is None:
                note_failure(tier, confirmed)


def _aimed(
    fails: Callable[[SmallModel], bool],
    watch: Watch,
    examiner: Examiner,
    models: list[SmallModel],
    seed: int,
    affordable: Callable[[], bool],
) -> SmallModel | None:
    contract = examiner.contract
    if contract != "verify" and contract != "step":
        return None  # a tree has other numbers: its nodes, its siblings
    eos = next((model.eos for model in models if model.core), None)
    return aimed(fails, watch, contract, eos=eos, seed=seed, affordable=affordable)


def usual_paths(rule: Callable[..., Any]) -> int:
    """Return the paths that code has by default, where it is no rule for trees."""
    return TORCH_PATHS if uses_torch(rule) else MAX_PATHS


def uses_torch(rule: Callable[..., Any]) -> bool:
    """Whether torch is among the names that the code sees."""
    module = sys.modules.get(getattr(rule, "__module__", ""), None)
    names = {**(vars(module) if module else {}), **getattr(rule, "__globals__", {})}
    return any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "torch"
        for value in names.values()
    )
