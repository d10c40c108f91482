"""The exact tier of an audit: the battery, the search, the smallest counterexample."""

import itertools
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from simverify.auditing.coins.coins import NotMonotone, TooManyCalls
from simverify.auditing.coverage.watch import look_closely
from simverify.auditing.exact.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.examiner import MAX_PATHS, SECONDS, Examiner, Judged, enumeration_of
from simverify.auditing.exact.instances import SmallModel
from simverify.auditing.exact.precision import Held
from simverify.auditing.exact.repeated import Confirmed, confirm, confirm_findings
from simverify.auditing.exact.rows import FailingRows, Part, failing_rows
from simverify.auditing.exact.search import search
from simverify.auditing.subject import Contract, Subject
from simverify.symbolic.board import doing
from simverify.symbolic.watchdog import Stopwatch

TORCH_PATHS = 8_000
"""The same where torch is used, whose paths take ten times as long."""

_ENDLESS = 3
"""Instances with more paths than a rule takes whose loops end, after which no more are tried."""

_SEEN = 10_000
"""Leaves that count as seen: by then the code was looked at for untracked randomness."""

_LARGEST = 8
"""An instance beyond the core may take this part of the paths of all, and no more."""

SEARCH_EXAMPLES = 60
SEARCH_PATHS = 600
"""Paths of one instance in the search: larger ones are not asked, unless one failed."""

SEARCH_BUDGET = 3_000
"""Paths of the whole search, after which instances that are new to it count as right: a third
in torch, and three times as many to shrink a failure."""


@dataclass
class ExactTier:
    """What the exact tier found.

    ``judged``: instances that were enumerated, in order. ``failure``: the smallest one that
    failed. ``not_enumerable``: the first thing that could not be followed. ``skipped``:
    instances that did not fit the budget. ``aborted``: why the tier ended early.
    ``unrepeated``: paths of the failure that are not repeated on plain numbers, in words.
    ``rows``: on what kind of rows the code fails, where that was looked for.
    """

    judged: list[Judged] = field(default_factory=list)
    failure: Judged | None = None
    not_enumerable: CannotEnumerate | None = None
    skipped: list[SmallModel] = field(default_factory=list)
    aborted: str | None = None
    unrepeated: str = ""
    rows: FailingRows | None = None

    @property
    def failures(self) -> list[Judged]:
        """The failure, and one of another sort on other rows: of the law, or of the contract."""
        if self.failure is None:
            return []
        others = [judged for _, judged in self.rows.failures] if self.rows else []
        first = self.failure
        news = (x for x in others if (x.deviates, x.violated) != (first.deviates, first.violated))
        return [first, *itertools.islice(news, 1)]

    @property
    def held(self) -> Held | None:
        """What the instance with the coarsest precision is held to."""
        return max((x.held for x in self.judged), key=lambda held: held.tolerance, default=None)

    @property
    def paths(self) -> int:
        """Paths run on the battery."""
        return sum(judged.comparison.paths for judged in self.judged)


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
    models = list(models)
    tier = ExactTier()
    with ExitStack() as stack:
        enumeration = None
        if subject.coin_bits is None:
            enumeration = stack.enter_context(enumeration_of(subject, contract))
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
    if searching and tier.failure is not None and tier.failure.comparison.complete:
        doing("the rows that a failure needs")
        with enumeration_of(subject, contract, _SEEN) as enumeration:
            examiner = Examiner(subject, contract, tolerance, max_paths, enumeration, _SEEN)
            tier.rows = failing_rows(tier.failure, models, partly(examiner, seconds))
    return tier


def partly(examiner: Examiner, seconds: float) -> Callable[[list[SmallModel], bool], Part]:
    """Return what runs the tier on instances of one kind; the core alone where that will do."""

    def run(models: list[SmallModel], every: bool) -> Part:
        part = ExactTier()
        core = models if every else [model for model in models if is_core(model)]
        most = examiner.max_paths // (2 if every else _LARGEST)
        _run_battery(part, lambda paths: replace(examiner, max_paths=paths), core, most, seconds)
        open_ = any(judged.undecided for judged in part.judged)
        stopped = part.not_enumerable is not None or part.aborted is not None or open_
        whole = not stopped and not any(map(is_core, part.skipped))
        return Part(tuple(part.judged), part.failure, whole)

    return run


def _run_battery(
    tier: ExactTier,
    examiner_for: Callable[[int], Examiner],
    models: Iterable[SmallModel],
    max_paths: int,
    seconds: float,
) -> None:
    watch = Stopwatch()
    endless = wasted = 0
    for model in models:
        rest = max_paths - tier.paths
        if not is_core(model):
            # The small ones that come behind, as the sweep, need some paths too.
            rest = min(rest - wasted - max_paths // _LARGEST, max_paths // _LARGEST)
            if rest <= 0:
                tier.skipped.append(model)
                continue
        examiner = examiner_for(rest)
        fair = _fair_paths(examiner, model)
        fits = examiner.max_paths >= fair
        examiner = replace(examiner, max_paths=min(examiner.max_paths, fair))
        left = seconds - watch.seconds()
        if left <= 0:
            tier.aborted = f"the limit of {seconds:g} s passed"
            return
        doing(f"the exact tier on {model.name}")
        look_closely()
        try:
            judged = examiner.judge(model, left)
        except CannotEnumerate as error:
            tier.not_enumerable = confirm_findings(examiner, model, error)
            return
        except NotMonotone as error:
            tier.not_enumerable = CannotEnumerate(f"coins: {error}")
            return
        except OutOfTime:
            tier.aborted = f"the limit of {seconds:g} s passed"
            return
        except (TooManyPaths, TooManyCalls):
            tier.skipped.append(model)
            wasted += 0 if is_core(model) else examiner.max_paths
            endless += fits
            if endless == _ENDLESS:
                tier.not_enumerable = CannotEnumerate(
                    f"all paths on {model.name}: more than {fair:,}, as where a loop draws until "
                    "it accepts"
                )
                return
            continue
        if judged.failed:
            _fail(tier, confirm(examiner, judged))
            return
        tier.judged.append(judged)


def _fail(tier: ExactTier, confirmed: Confirmed) -> None:
    """Note a failure that repeats on plain numbers, or what kept it from that."""
    if confirmed.failure is None:
        tier.not_enumerable = confirmed.limit
        return
    tier.failure = confirmed.failure
    tier.judged.append(confirmed.failure)
    tier.unrepeated = confirmed.note


def is_core(model: SmallModel) -> bool:
    """Whether a verdict needs ``model``; larger ones may be left out for want of paths."""
    return model.vocab_size <= 3 and model.gamma <= 2


def _fair_paths(examiner: Examiner, model: SmallModel) -> int:
    """Return more paths than a rule without endless loops takes on ``model``."""
    if examiner.contract == "step" or examiner.subject.coin_bits is not None:
        return examiner.max_paths + 1
    return 1_000 + 30 * int((2 * model.vocab_size) ** model.gamma) * model.vocab_size


def _search(
    tier: ExactTier, examiner_for: Callable[[int], Examiner], contract: Contract, seed: int
) -> None:
    if not tier.judged:
        return
    failure = tier.failure
    paths = 2 * failure.comparison.paths if failure else 0
    examiner = examiner_for(max(SEARCH_PATHS, paths))
    doing("the search for a counterexample")
    budget = SEARCH_BUDGET // 3 if uses_torch(examiner.subject.rule) else SEARCH_BUDGET
    budget *= 3 if failure else 1
    # Hypothesis asks for what it has found again; the answer must not depend on the budget.
    known: dict[SmallModel, bool] = {}

    def fails(model: SmallModel) -> bool:
        nonlocal budget
        if model in known or budget <= 0:
            return known.get(model, False)
        try:
            judged = examiner.judge(model)
        except (CannotEnumerate, NotMonotone, OutOfTime, TooManyCalls, TooManyPaths):
            budget -= examiner.max_paths
            known[model] = False
        else:
            budget -= judged.comparison.paths
            known[model] = judged.failed
        return known[model]

    found = search(
        fails,
        max_vocab=failure.model.vocab_size if failure else 3 if contract == "verify" else 2,
        max_gamma=failure.model.gamma if failure else 2,
        examples=SEARCH_EXAMPLES,
        seed=seed,
    )
    if found is not None:
        judged = examiner.judge(found)
        if judged.failed:
            # What fails on a replay too, and is no larger: the counterexample to show.
            confirmed = confirm(examiner, judged)
            if confirmed.failure is not None or failure is None:
                _fail(tier, confirmed)


def uses_torch(rule: Callable[..., Any]) -> bool:
    """Whether torch is among the names that the code sees."""
    module = sys.modules.get(getattr(rule, "__module__", ""), None)
    names = {**(vars(module) if module else {}), **getattr(rule, "__globals__", {})}
    return any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "torch"
        for value in names.values()
    )
