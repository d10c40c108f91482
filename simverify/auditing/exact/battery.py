"""The battery of the exact tier: which instances are judged, in which order, within what."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from simverify.auditing.coverage.watch import look_closely
from simverify.auditing.exact.budgets import affordable, fair_paths
from simverify.auditing.exact.coins.coin_errors import NOT_BISECTED, TooManyCalls, limit_of
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.comparison import Held
from simverify.auditing.exact.judging.examiner import MAX_PATHS, Examiner, Judged
from simverify.auditing.exact.judging.repeated import Confirmed, confirm, confirm_findings
from simverify.auditing.exact.judging.rows import FailingRows
from simverify.symbolic.enumeration.effort import effort_of
from simverify.symbolic.errors import TooLarge
from simverify.symbolic.guards.watchdog import Stopwatch, doing

_ENDLESS = 3
"""Instances with more paths than a rule takes whose loops end, after which no more are tried."""

ENOUGH = 2e-7
"""Mass that may be left out of a law whose paths have no end: a probability is known up to it."""

LARGEST = 8
"""An instance beyond the core may take this part of the paths of all, and no more."""


@dataclass
class ExactTier:
    """What the exact tier found.

    ``judged``: instances that were enumerated, in order. ``failure``: the smallest one that
    failed. ``not_enumerable``: the first thing that could not be followed. ``skipped``:
    instances that did not fit the budget; ``too_large``: what cannot be followed on some of them
    for their size alone. ``aborted``: after how many seconds the clock stopped it, if it did, and
    ``late`` the instances that it did not come to. ``beyond``: those on whose long prefix the code
    raised, as beyond a limit of its own. ``unrepeated``: paths of the failure that plain numbers
    do not repeat, in words. ``rows``: those on which the code fails, where that was looked for.
    """

    judged: list[Judged] = field(default_factory=list)
    failure: Judged | None = None
    not_enumerable: CannotEnumerate | None = None
    skipped: list[SmallModel] = field(default_factory=list)
    too_large: CannotEnumerate | None = None
    aborted: float | None = None
    late: list[SmallModel] = field(default_factory=list)
    unrepeated: str = ""
    beyond: list[Judged] = field(default_factory=list)
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


def run_battery(
    tier: ExactTier,
    examiner_for: Callable[[int], Examiner],
    models: Iterable[SmallModel],
    max_paths: int,
    seconds: float,
    usual: int = MAX_PATHS,
) -> None:
    """Judge the instances into ``tier``, until one fails or a budget ends.

    ``usual``: what ``max_paths`` is by default.

    The core first, for a verdict needs it, whatever the time; what comes out is in the order of
    ``models``. Where one of the core fails, those before it are judged too: the first that fails
    is the one that counts.
    """
    models = list(models)
    run = _Run(tier, examiner_for, max_paths, seconds, usual)
    run.through(model for model in models if model.core)
    others = [model for model in models if not model.core]
    if run.found is not None:
        # Code that does not come back would only hang again.
        before = models.index(run.found.model) if run.found.comparison.complete else 0
        others = [model for model in others if models.index(model) < before]
    if not run.ended:
        run.through(others)
    place = {model: i for i, model in enumerate(models)}
    tier.judged.sort(key=lambda judged: place[judged.model])
    tier.skipped.sort(key=place.__getitem__)
    if run.found is not None:
        last = place[run.found.model]
        tier.judged = [judged for judged in tier.judged if place[judged.model] < last]
        tier.aborted = tier.not_enumerable = None
        note_failure(tier, run.confirmed)
    elif tier.aborted is not None:
        known = {judged.model for judged in (*tier.judged, *tier.beyond)} | set(tier.skipped)
        tier.late = [model for model in models if model not in known]


@dataclass
class _Run:
    """Judges instances in turn. ``found``: the failure that counts so far, as ``confirmed``.

    ``begun``: how many runs there had been at the start, and how much effort.
    """

    tier: ExactTier
    examiner_for: Callable[[int], Examiner]
    max_paths: int
    seconds: float
    usual: int
    found: Judged | None = None
    confirmed: Confirmed = field(default_factory=lambda: Confirmed(None))
    ended: bool = False
    loops: bool = False
    endless: int = 0
    wasted: int = 0
    begun: tuple[int, float] | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def through(self, models: Iterable[SmallModel]) -> None:
        """Judge one after the other, until one fails or nothing more can be judged."""
        for model in models:
            if self.ended or self._fails(model):
                return

    def _fails(self, model: SmallModel) -> bool:
        tier, max_paths = self.tier, self.max_paths
        rest = max_paths - tier.paths
        if not model.is_small:
            # The small ones that come behind, as the sweep, need some paths too.
            rest = min(rest - self.wasted - max_paths // LARGEST, max_paths // LARGEST)
            if rest <= 0:
                tier.skipped.append(model)
                return False
        examiner = self.examiner_for(rest)
        affordable = self._affordable(examiner)
        if not model.core:
            if affordable <= 0:
                tier.skipped.append(model)
                return False
            examiner = replace(examiner, max_paths=min(rest, affordable))
        fair = fair_paths(examiner, model)
        fits = examiner.max_paths >= fair
        examiner = replace(examiner, max_paths=min(examiner.max_paths, fair))
        doing(f"the exact tier on {model.name}")
        look_closely(model)
        left_out = len(tier.skipped)
        judged = self._judged(examiner, model, fits=fits)
        if self.ended or len(tier.skipped) > left_out:
            return False
        partial = self.loops or examiner.subject.coin_bits is not None
        if judged is None or (partial and judged.undecided and not judged.failed):
            tier.skipped.append(model)
            self.wasted += 0 if model.is_small else examiner.max_paths
            self.endless += fits
            if self.endless == _ENDLESS:
                self._stop(_too_many(examiner, model, fair))
            return False
        if not judged.failed:
            tier.judged.append(judged)
            return False
        if is_beyond_a_limit(judged):
            tier.beyond.append(judged)
            return False
        confirmed = confirm(examiner, judged)
        if confirmed.limit is not None:  # nothing of the failure repeats
            self._stop(confirmed.limit)
            return False
        self.found, self.confirmed = judged, confirmed
        return True

    def _affordable(self, examiner: Examiner) -> int:
        """Return the paths that one more instance may take, if they are as dear as those before."""
        if examiner.enumeration is None:
            return examiner.max_paths
        source = examiner.enumeration.source
        self.begun = self.begun or (source.epoch, effort_of(source))
        runs, effort = source.epoch - self.begun[0], effort_of(source) - self.begun[1]
        return affordable(self.max_paths, self.usual, runs, effort)

    def _judged(self, examiner: Examiner, model: SmallModel, *, fits: bool) -> Judged | None:
        """Judge one instance; None if it has too many paths, or cannot be followed."""
        left = self.seconds - self.watch.seconds()
        try:
            if left <= 0:
                raise OutOfTime(self.watch.seconds(), self.tier.paths)
            judged, self.loops = _judge(examiner, model, left, loops=self.loops, fits=fits)
        except CannotEnumerate as error:
            if isinstance(error, TooLarge) and not (model.is_small or error.findings):
                self.tier.too_large = self.tier.too_large or error
                self.tier.skipped.append(model)
            else:
                self._stop(confirm_findings(examiner, model, error))
        except NOT_BISECTED as error:
            self._stop(limit_of(error, model.name))
        except OutOfTime:
            self.ended, self.tier.aborted = True, self.seconds
        except (TooManyPaths, TooManyCalls):
            pass
        else:
            return judged
        return None

    def _stop(self, limit: CannotEnumerate) -> None:
        self.ended, self.tier.not_enumerable = True, limit


def _judge(
    examiner: Examiner, model: SmallModel, seconds: float, *, loops: bool, fits: bool
) -> tuple[Judged, bool]:
    """Judge one instance; where its paths have no end, the heaviest. Returns whether it was so."""
    watch = Stopwatch()
    if not loops:
        try:
            return examiner.judge(model, seconds), False
        except TooManyPaths:
            if not fits or examiner.subject.coin_bits is not None or _widest(examiner)[0]:
                raise
    left = max(0.01, seconds - watch.seconds())
    return replace(examiner, enough=ENOUGH).judge(model, left), True


def _too_many(examiner: Examiner, model: SmallModel, fair: int) -> CannotEnumerate:
    """Say why the paths of code are more than those of a rule whose loops end."""
    values, where = _widest(examiner)
    what = f"all paths on {model.name}: more than {fair:,}"
    if values:
        return CannotEnumerate(
            f"{what}: a random integer of {values:,} values is used in more than a comparison, and "
            "is run value by value: compare it with a number, or draw a uniform instead", where,
        )  # fmt: skip
    return CannotEnumerate(
        f"{what}, as where a loop draws until it accepts, and the heaviest of them leave out a "
        f"mass above {ENOUGH:g}: draw from the law that the loop accepts instead",
        "" if examiner.enumeration is None else examiner.enumeration.source.longest,
    )


def _widest(examiner: Examiner) -> tuple[int, str]:
    """Return the most values of an integer that was followed value by value, and where."""
    return (0, "") if examiner.enumeration is None else examiner.enumeration.source.widest


def note_failure(tier: ExactTier, confirmed: Confirmed) -> None:
    """Note a failure that repeats on plain numbers, or what kept it from that."""
    if confirmed.failure is None:
        tier.not_enumerable = confirmed.limit
        return
    tier.failure = confirmed.failure
    tier.judged.append(confirmed.failure)
    tier.unrepeated = confirmed.note


def is_beyond_a_limit(judged: Judged) -> bool:
    """Whether all that is wrong is that the code raised on a prefix as long as a number in it.

    Such a number may be the longest context that the code is made for, and raising beyond it is
    what honest code does. Wrong tokens there are still a failure.
    """
    if not judged.model.prompt or judged.deviates:
        return False
    violations = [f for f in judged.comparison.findings if f.severity == "violation"]
    return {found.kind for found in violations} == {"raises"}
