"""The exact tier of an audit: a battery of instances, a search for more, what is reported.

The battery fixes which instances are judged, in which order, within which budget.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

from simverify import results
from simverify.arrays import Row
from simverify.auditing import confirm
from simverify.auditing.coins import BISECTION_FAILURES, TooManyCalls, bisection_limit
from simverify.auditing.comparison import LawTree, PrecisionCheck, Transcripts, prefix_probability
from simverify.auditing.confirm import Confirmation, confirm_failure, confirm_findings
from simverify.auditing.coverage import begin_instance, current_monitor
from simverify.auditing.enumeration import NO_EXTRA_CALLS, cut_at_eos, enumerated_length
from simverify.auditing.examiner import (
    BATTERY_BUDGET,
    EXACT_TIER_SECONDS,
    MAX_BATTERY_PATHS,
    MAX_STEP_PATHS,
    ExactResult,
    Examiner,
    judges_generations,
    make_enumeration,
    output_length,
)
from simverify.auditing.instances import SmallModel, max_tree_count, with_processing
from simverify.auditing.sampled_runs import InstanceTables, SampledInstance
from simverify.auditing.search import (
    SearchSpace,
    make_search_space,
    search_branch_targets,
    search_failure,
    smallest_failure,
)
from simverify.auditing.subject import Contract, Subject
from simverify.results import Branch
from simverify.symbolic.engine import Budget, Spending
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.provenance import CannotEnumerate, InstanceTooLarge, OutOfTime
from simverify.symbolic.source import total_effort
from simverify.symbolic.watchdog import Stopwatch, report_activity
from simverify.verifiers import VERIFIERS

# The budget of one instance of a battery: paths and effort.


EFFORT_PER_PATH = 5.0
"""Effort of a battery for each path of its budget: runs of the code, or 40 calls of torch each. A
path through a whole model is expensive."""

MAX_EFFORT = 50_000
"""Largest effort of a battery, about twenty seconds; more in proportion where more paths are asked
for than the default."""

INSTANCE_SHARE = 4
"""An instance beyond the core may take one part in so many of the effort that is left."""

_MAX_TREE_OUTCOMES = 300
"""Outcomes of one tree are counted up to so many."""


def affordable_paths(paths: int, usual: int, runs: int, effort: float) -> int:
    """Return how many paths one more instance may take, after ``runs`` that took ``effort``.

    ``paths``: of the whole battery; ``usual``: the default of ``paths``.
    """
    left = min(EFFORT_PER_PATH * paths, MAX_EFFORT * max(1.0, paths / usual)) - effort
    return math.ceil(left / INSTANCE_SHARE * max(runs, 1) / max(effort, 1))


def finite_path_bound(examiner: Examiner, model: SmallModel) -> int:
    """Return more paths than a rule without endless loops takes on ``model``."""
    if examiner.subject.coin_bits is not None:
        return examiner.budget.paths + 1
    if examiner.contract == "step":
        return MAX_STEP_PATHS
    if model.drafting is not None:
        drawn = int(model.vocab_size ** (len(model.drafting.shape) + 1))
        fair = 1_000 + max_tree_count(model) * min(max(40, drawn), _MAX_TREE_OUTCOMES)
        # An object gets a few calls more, which look for hidden state.
        return 2 * fair if judges_generations(examiner.subject, examiner.contract) else fair
    return 1_000 + 30 * int((2 * model.vocab_size) ** model.gamma) * model.vocab_size


_MAX_ENDLESS = 3
"""After so many instances whose loops seem endless no more are tried."""

TRUNCATED_MASS = 2e-7
"""Mass that may be left out of a law whose paths have no end: a probability is known up to it."""

LARGE_INSTANCE_SHARE = 8
"""A large instance beyond the core may take one part in so many of all paths."""


@dataclass
class ExactTier:
    """The result of the exact tier.

    ``judged``: instances that were enumerated, in order. ``failure``: the smallest one that failed.
    ``not_enumerable``: the first thing that could not be followed. ``skipped``: instances beyond
    the budget; ``too_large``: what cannot be followed on some of them because of their size.
    ``aborted``: the seconds after which the clock stopped it; ``late``: the instances that were
    left then. ``beyond``: instances with a long prompt on which the code raised, maybe at a limit
    of its own. ``unrepeated``: paths of the failure that plain numbers do not repeat, in words.
    ``rows``: the kind of rows on which the code fails, if that was looked for.
    """

    judged: list[ExactResult] = field(default_factory=list)
    failure: ExactResult | None = None
    not_enumerable: CannotEnumerate | None = None
    skipped: list[SmallModel] = field(default_factory=list)
    too_large: CannotEnumerate | None = None
    aborted: float | None = None
    late: list[SmallModel] = field(default_factory=list)
    unrepeated: str = ""
    beyond: list[ExactResult] = field(default_factory=list)
    rows: confirm.FailingRows | None = None

    @property
    def failures(self) -> list[ExactResult]:
        """The failure, and one of another sort on other rows: of the law, or of the contract."""
        if self.failure is None:
            return []
        others = [judged for _, judged in self.rows.failures] if self.rows else []
        first = self.failure
        news = (x for x in others if (x.deviates, x.violated) != (first.deviates, first.violated))
        return [first, *itertools.islice(news, 1)]

    @property
    def held(self) -> PrecisionCheck | None:
        """What the instance with the coarsest precision is held to."""
        return max((x.held for x in self.judged), key=lambda held: held.tolerance, default=None)

    @property
    def paths(self) -> int:
        """Paths run on the battery."""
        return sum(judged.comparison.paths for judged in self.judged)


def run_battery(
    tier: ExactTier,
    examiner: Examiner,
    models: Iterable[SmallModel],
    budget: Budget,
    usual: int = MAX_BATTERY_PATHS,
) -> None:
    """Judge the instances into ``tier``, until one fails or a budget ends.

    ``budget``: of all instances together; ``usual``: its default number of paths. The core comes
    first, since a verdict needs it; results stand in the order of ``models``. If one of the core
    fails, the instances before it are judged too: the first that fails counts.
    """
    models = list(models)
    run = _BatteryRun(tier, examiner, budget, usual)
    run.through(model for model in models if model.core)
    others = [model for model in models if not model.core]
    if run.failure is not None:
        # Code that hangs would only hang again.
        before = models.index(run.failure.model) if run.failure.comparison.complete else 0
        others = [model for model in others if models.index(model) < before]
    if not run.ended:
        run.through(others)
    place = {model: i for i, model in enumerate(models)}
    tier.judged.sort(key=lambda judged: place[judged.model])
    tier.skipped.sort(key=place.__getitem__)
    if run.failure is not None:
        last = place[run.failure.model]
        tier.judged = [judged for judged in tier.judged if place[judged.model] < last]
        tier.aborted = tier.not_enumerable = None
        record_failure(tier, run.confirmed)
    elif tier.aborted is not None:
        known = {judged.model for judged in (*tier.judged, *tier.beyond)} | set(tier.skipped)
        tier.late = [model for model in models if model not in known]


@dataclass
class _BatteryRun:
    """Judges instances in turn. ``failure``: the failure that counts so far, as ``confirmed``.

    ``begun``: how many runs there had been at the start, and how much effort.
    """

    tier: ExactTier
    examiner: Examiner
    budget: Budget
    usual: int
    failure: ExactResult | None = None
    confirmed: Confirmation = field(default_factory=lambda: Confirmation(None))
    ended: bool = False
    loops: bool = False
    endless: int = 0
    wasted: int = 0
    begun: tuple[int, float] | None = None
    clock: Stopwatch = field(default_factory=partial(Stopwatch, sleeps=True))

    def through(self, models: Iterable[SmallModel]) -> None:
        """Judge one after the other, until one fails or nothing more can be judged."""
        for model in models:
            if self.ended or self._fails(model):
                return

    def _fails(self, model: SmallModel) -> bool:
        tier, paths = self.tier, self.budget.paths
        rest = paths - tier.paths
        if not model.is_small:
            # The small instances that follow need some paths too.
            share = paths // LARGE_INSTANCE_SHARE
            rest = min(rest - self.wasted - share, share)
        if model.is_small or rest > 0:
            affordable = self._affordable(rest)
            rest = rest if model.core else min(rest, affordable)
        if rest <= 0 and not (model.is_small and model.core):
            tier.skipped.append(model)
            return False
        examiner = self.examiner.within(paths=rest)
        fair = finite_path_bound(examiner, model)
        fits = examiner.budget.paths >= fair
        examiner = examiner.within(paths=min(examiner.budget.paths, fair))
        report_activity(f"the exact tier on {model.name}")
        begin_instance(model)
        left_out = len(tier.skipped)
        judged = self._judged(examiner, model, fits=fits)
        if self.ended or len(tier.skipped) > left_out:
            return False
        partial = self.loops or examiner.subject.coin_bits is not None
        if judged is None or (partial and judged.undecided and not judged.failed):
            tier.skipped.append(model)
            self.wasted += 0 if model.is_small else examiner.budget.paths
            self.endless += fits
            if self.endless == _MAX_ENDLESS:
                self._stop(_too_many_paths_error(examiner, model, fair))
            return False
        if not judged.failed or is_context_limit(judged):
            (tier.beyond if judged.failed else tier.judged).append(judged)
            return False
        confirmed = confirm_failure(examiner, judged)
        if confirmed.limit is not None:  # nothing of the failure repeats
            self._stop(confirmed.limit)
            return False
        self.failure, self.confirmed = judged, confirmed
        return True

    def _affordable(self, rest: int) -> int:
        """Return the paths that one more instance may take, if they are as dear as those before."""
        if self.examiner.enumeration is None:
            return rest
        source = self.examiner.enumeration.source
        self.begun = self.begun or (source.epoch, total_effort(source))
        runs, effort = source.epoch - self.begun[0], total_effort(source) - self.begun[1]
        return affordable_paths(self.budget.paths, self.usual, runs, effort)

    def _judged(self, examiner: Examiner, model: SmallModel, *, fits: bool) -> ExactResult | None:
        """Judge one instance; None if it has too many paths, or cannot be followed."""
        seconds = self.budget.seconds or math.inf
        left = seconds - self.clock.seconds()
        try:
            if left <= 0:
                raise OutOfTime(self.clock.seconds(), self.tier.paths)
            return self._enumerated(examiner.within(seconds=left), model, fits=fits)
        except CannotEnumerate as error:
            if isinstance(error, InstanceTooLarge) and not (model.is_small or error.findings):
                self.tier.too_large = self.tier.too_large or error
                self.tier.skipped.append(model)
            else:
                self._stop(confirm_findings(examiner, model, error))
        except BISECTION_FAILURES as error:
            self._stop(bisection_limit(error, model.name))
        except OutOfTime:
            self.ended, self.tier.aborted = True, seconds
        except (TooManyPaths, TooManyCalls):
            pass
        return None

    def _enumerated(self, examiner: Examiner, model: SmallModel, *, fits: bool) -> ExactResult:
        """Judge one instance; where its paths have no end, by the heaviest."""
        clock = Spending(examiner.budget)
        if not self.loops:
            try:
                return examiner.judge(model)
            except TooManyPaths:
                coins = examiner.subject.coin_bits is not None
                if not fits or coins or _widest_integer(examiner)[0]:
                    raise
        left = replace(clock.remaining_time(), enough=TRUNCATED_MASS)
        judged = replace(examiner, budget=left).judge(model)
        self.loops = True
        return judged

    def _stop(self, limit: CannotEnumerate) -> None:
        self.ended, self.tier.not_enumerable = True, limit


def _too_many_paths_error(examiner: Examiner, model: SmallModel, fair: int) -> CannotEnumerate:
    """Say why the paths of code are more than those of a rule whose loops end."""
    values, where = _widest_integer(examiner)
    what = f"all paths on {model.name}: more than {fair:,}"
    if values:
        return CannotEnumerate(
            f"{what}: a random integer of {values:,} values is used in more than a comparison, and "
            "is run value by value: compare it with a number, or draw a uniform instead",
            where,
        )
    return CannotEnumerate(
        f"{what}, as where a loop draws until it accepts, and the heaviest of them leave out a "
        f"mass above {TRUNCATED_MASS:g}: draw from the distribution that the loop accepts instead",
        "" if examiner.enumeration is None else examiner.enumeration.source.longest,
    )


def _widest_integer(examiner: Examiner) -> tuple[int, str]:
    """Return the most values of an integer that was followed value by value, and where."""
    return (0, "") if examiner.enumeration is None else examiner.enumeration.source.widest


def record_failure(tier: ExactTier, confirmed: Confirmation) -> None:
    """Note a failure that repeats on plain numbers, or what kept it from that."""
    if confirmed.failure is None:
        tier.not_enumerable = confirmed.limit
        return
    tier.failure = confirmed.failure
    tier.judged.append(confirmed.failure)
    tier.unrepeated = confirmed.note


def is_context_limit(judged: ExactResult) -> bool:
    """Whether the only violation is that the code raised on a prompt as long as a number in it.

    Such a number may be the longest context of the code, and honest code raises beyond it. Wrong
    tokens there are still a failure.
    """
    if not judged.model.prompt or judged.deviates:
        return False
    violations = [f for f in judged.comparison.findings if f.severity == "violation"]
    return {finding.kind for finding in violations} == {"raises"}


# The exact tier in the result document and in notes.
#
# Notes say how far from optimal a lossless rule is; they never change the verdict.


def instance_document(judged: ExactResult) -> results.ExactInstance:
    """Return the document's entry of one instance of the exact tier."""
    comparison, model = judged.comparison, judged.model
    # The closed form of the optimum holds for drafts without a prompt.
    known = comparison.expected_accepted is not None and not (model.drafting or model.prompt)
    return results.ExactInstance(
        name=model.name,
        vocab_size=model.vocab_size,
        gamma=model.gamma,
        paths=comparison.paths,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        expected_accepted=comparison.expected_accepted,
        optimum=optimal_acceptance(model) if known else None,
        failed=judged.failed,
        left_out=comparison.pruned + comparison.lost,
    )


def make_counterexample(judged: ExactResult, contract: Contract) -> results.Counterexample:
    """Return a failure's instance with its rows, and the output or call that deviates most."""
    comparison, model = judged.comparison, judged.model
    call, sequence = comparison.call, comparison.worst.tokens
    tree: tuple[Branch, ...] = ()
    if call is None:
        depth = _rows_depth(model, output_length(model, contract), contract)
        sequence = cut_at_eos(sequence, model.eos)
        tree = next_token_branches(
            comparison.emitted, lambda so_far: model.expected(model.prompt + so_far), sequence
        )
    return results.Counterexample(
        instance=model.document(depth, sequence) if call is None else model.document(model.gamma),
        sequence=sequence,
        probability_emitted=comparison.worst.emitted,
        probability_expected=comparison.worst.due,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        tree=tree,
        call=call,
    )


def make_breach(judged: ExactResult, contract: Contract) -> results.Breach | None:
    """Return the instance and the drafted block on which the code broke its contract, if it did."""
    if not judged.violated:
        return None
    comparison, model = judged.comparison, judged.model
    message = next(f.message for f in comparison.findings if f.severity == "violation")
    length = output_length(model, contract)
    if contract == "step":
        length = enumerated_length(model.vocab_size, model.gamma, model.earlier_calls, length)
    return results.Breach(
        instance=model.document(_rows_depth(model, length, contract)),
        draft_tokens=comparison.broken,
        parents=comparison.broken_parents,
        message=message,
    )


def rows_document(rows: confirm.FailingRows) -> results.FailingRows:
    """Return what the result document says of the rows that a failure needs."""
    return results.FailingRows(
        kinds=rows.kinds,
        message=rows.words(),
        instances=len(rows.right),
        paths=sum(judged.comparison.paths for judged in rows.right),
        max_abs_deviation=max((x.comparison.max_abs_deviation for x in rows.right), default=None),
    )


def _rows_depth(model: SmallModel, length: int, contract: Contract) -> int:
    """Length of the longest prefix whose rows the code may ask for."""
    if contract == "draft":
        return model.gamma
    if contract != "step":
        return length - 1
    # The last call of an earlier generation may begin deeper than that of the output.
    earlier = (model.earlier_calls - 1) * (model.gamma + 1)
    return max(length - 1, earlier) + model.gamma


def make_localisation(judged: ExactResult) -> results.Localisation | None:
    """Return where the law leaves the target first; None if no position stands out."""
    return judged.comparison.place if judged.comparison.call is None else None


def next_token_branches(
    law: Row | LawTree | Transcripts, target: Callable[[Tokens], Row], sequence: Tokens
) -> tuple[Branch, ...]:
    """Return each beginning of ``sequence``, with every token that could come next there.

    ``law``: the law of outputs, float64 (V,) * length or a tree; ``sequence`` is no longer.
    ``target(prefix)``: the target's row (V,) after the tokens of the output so far.
    """
    branches, expected = [], 1.0
    for place, token in enumerate(sequence):
        row = target(sequence[:place])
        for other, share in enumerate(row):
            tokens = (*sequence[:place], other)
            emitted = prefix_probability(law, tokens)
            branches.append(Branch(tokens, emitted, expected * float(share)))
        expected *= float(row[token])
    return tuple(branches)


_COMPARED_RULES = ("token", "match")

_MIN_ROUNDING = 1e-9


@lru_cache(maxsize=1024)
def expected_accepted(name: str, model: SmallModel) -> float:
    """E[tau] of the built-in rule ``name`` on ``model``, from its acceptance curve."""
    return float(_build_tables(model).curve(VERIFIERS[name]).sum())


def optimal_acceptance(model: SmallModel) -> float:
    """E[tau] of block verification, the most without state (Sun et al. 2025, Theorem 2)."""
    return expected_accepted("block", model)


def optimality_notes(judged: Sequence[ExactResult], tolerance: float) -> list[str]:
    """Say where the rule, whose law was right on all of ``judged``, accepts too little.

    Rules that draft themselves have no notes: the tokens do not tell how many drafts of a
    position a call weighs, and a rule that weighs two may well accept more than block does.
    """
    rounding = max(_MIN_ROUNDING, tolerance)
    # For rules that draft themselves the mass of bonus tokens is not known.
    chains = (x for x in judged if not x.model.drafting and x.comparison.bonus is not None)
    comparisons = {x.model: x.comparison for x in chains}
    accepted = {
        m: x.expected_accepted for m, x in comparisons.items() if x.expected_accepted is not None
    }
    below = {
        m: tau for m, tau in accepted.items() if tau < optimal_acceptance(m) - rounding * m.gamma
    }
    if not below:
        return []
    worst = min(below, key=lambda model: below[model] / optimal_acceptance(model))
    best = optimal_acceptance(worst)
    token = VERIFIERS["token"]
    if all(not x.comparison.bonus for x in judged) and any(
        _build_tables(model).curve(token)[-1] > _MIN_ROUNDING for model in accepted
    ):
        return [
            "never emits a bonus token after gamma accepted drafts, so a call emits fewer tokens "
            f"than it could: on {worst.name} {below[worst] + 1:.4g} tokens, E[tau] "
            f"{below[worst]:.4g}; block verification emits {best + 1:.4g}, E[tau] {best:.4g}"
        ]
    alike = (
        f", as the {name} rule"
        for name in _COMPARED_RULES
        if all(
            abs(x - expected_accepted(name, m)) <= rounding * m.gamma for m, x in accepted.items()
        )
    )
    like = next(alike, "")
    return [
        f"accepts less than the optimum on {len(below)} of {len(accepted)} instances{like}: on "
        f"{worst.name} E[tau] is {below[worst]:.4g}, {below[worst] / best:.1%} of block "
        f"verification's {best:.4g}"
    ]


@lru_cache(maxsize=1024)
def _build_tables(model: SmallModel) -> InstanceTables:
    return InstanceTables(SampledInstance(model, model.gamma), model.gamma + 1)


# The whole tier: the battery, the search, the smallest counterexample.


MAX_TORCH_PATHS = 8_000
"""Paths of the battery where torch is used: they take ten times as long."""

_TRUSTED_LEAF_COUNT = 10_000
"""Ends of paths after which code is no longer checked for untracked randomness."""

SEARCH_EXAMPLES = 60
SEARCH_PATHS = 600
"""Paths of one instance in the search; more only if one of so many paths failed."""

SEARCH_EFFORT = 3_000
"""Effort of the whole search, after which instances that are new to it count as right; three
times as much to shrink a failure."""

TARGETED_SEARCH_SHARE = 0.2
"""The part of it that is for what no instance of the battery has reached, and no more than this
part of what the battery took."""


def run_exact_tier(
    subject: Subject,
    contract: Contract,
    models: Iterable[SmallModel],
    *,
    tolerance: float | None,
    budget: Budget = BATTERY_BUDGET,
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
            enumeration = stack.enter_context(make_enumeration(subject, contract))
        single = replace(budget, seconds=EXACT_TIER_SECONDS)
        examiner = Examiner(subject, contract, tolerance, single, enumeration)
        run_battery(tier, examiner, models, budget, default_paths(subject.rule))
        # A broken contract needs no smaller instance, and broken code may be slow to search with.
        broken = tier.failure is not None and not tier.failure.deviates
        if searching and not broken and tier.not_enumerable is None and tier.aborted is None:
            _search_counterexample(tier, examiner, models, seed)
    # A drafter does not read the target's rows, so their kinds do not matter.
    kinds = searching and contract != "draft"
    if kinds and tier.failure is not None and tier.failure.comparison.complete:
        report_activity("the rows that a failure needs")
        leaves = _TRUSTED_LEAF_COUNT
        with make_enumeration(subject, contract, leaves) as enumeration:
            examiner = Examiner(subject, contract, tolerance, budget, enumeration, leaves)
            tier.rows = confirm.find_failing_rows(tier.failure, models, row_kind_runner(examiner))
    return tier


def row_kind_runner(
    examiner: Examiner,
) -> Callable[[list[SmallModel], bool], confirm.RowKindResult]:
    """Return what runs the tier on instances of one kind; the core alone where that will do."""

    def run(models: list[SmallModel], every: bool) -> confirm.RowKindResult:
        part = ExactTier()
        core = models if every else [model for model in models if model.is_small]
        budget = examiner.budget
        most = budget.paths // (2 if every else LARGE_INSTANCE_SHARE)
        run_battery(part, examiner, core, replace(budget, paths=most))
        open_ = any(judged.undecided for judged in part.judged)
        stopped = part.not_enumerable is not None or part.aborted is not None or open_
        whole = not stopped and not any(model.is_small for model in part.skipped)
        return confirm.RowKindResult(tuple(part.judged), part.failure, whole)

    return run


def _search_counterexample(
    tier: ExactTier, examiner: Examiner, models: list[SmallModel], seed: int
) -> None:
    if not tier.judged:
        return
    failure, enumeration = tier.failure, examiner.enumeration
    paths = 2 * failure.comparison.paths if failure else 0
    # Hidden state was looked for on the battery; only the rows are new here.
    beyond = None if failure else NO_EXTRA_CALLS
    examiner = replace(examiner, beyond=beyond).within(paths=max(SEARCH_PATHS, paths))
    report_activity("the search for a counterexample")
    battery = total_effort(enumeration.source) if enumeration else tier.paths
    targeted = TARGETED_SEARCH_SHARE * min(SEARCH_EFFORT, battery)
    budget: float = 3 * SEARCH_EFFORT if failure else targeted
    spent, found_one = 0.0, failure is not None
    # Hypothesis asks again for what it has found: the answer must not depend on the budget.
    known: dict[SmallModel, bool] = {}

    def fails(model: SmallModel) -> bool:
        nonlocal spent, budget, found_one
        if model in known or spent >= budget:
            return known.get(model, False)
        processed = with_processing(model, processing)
        if processed is None:
            return False
        before = total_effort(enumeration.source) if enumeration else 0.0
        paths = examiner.budget.paths
        try:
            judged = examiner.judge(processed)
            known[model] = judged.failed and not is_context_limit(judged)
            paths = judged.comparison.paths
        except OutOfTime:
            # The others would not end in time either, and the search would take an hour.
            known[model], spent = False, math.inf
        except (CannotEnumerate, *BISECTION_FAILURES, TooManyCalls, TooManyPaths):
            known[model] = False
        spent += total_effort(enumeration.source) - before if enumeration else paths
        if known[model] and not found_one:
            found_one, budget = True, spent + 3 * SEARCH_EFFORT
        return known[model]

    def release() -> None:
        if enumeration is not None:
            enumeration.release()

    def fails_alone(model: SmallModel) -> bool:
        """Return what ``fails`` does, where the next instance takes random numbers of its own."""
        try:
            return fails(model)
        finally:
            release()

    release()
    start = failure.model if failure else None
    processing = models[0].processing
    contract, watch = examiner.contract, current_monitor()
    # The numbers in the code are not compared with those of a tree: its nodes, its siblings.
    if start is None and watch is not None and (contract == "verify" or contract == "step"):
        # The battery has had its instances for single numbers of the code.
        eos = next((model.eos for model in models if model.core), None)
        given: dict[str, Any] = {"eos": eos, "seed": seed}
        start = search_branch_targets(
            fails_alone, watch, contract, affordable=lambda: spent < budget, **given
        )
    beyond_vocab = 3 if examiner.contract == "verify" else 2

    def space() -> SearchSpace:
        return make_search_space(models, start, examiner.subject.fits, beyond=beyond_vocab)

    if start is None:
        budget = SEARCH_EFFORT
        start = search_failure(fails, space(), examples=SEARCH_EXAMPLES, seed=seed)
    if start is None:
        return

    release()
    counterexample = smallest_failure(fails_alone, space(), examples=SEARCH_EXAMPLES, seed=seed)
    if counterexample is None and failure is None:
        counterexample = start
    if counterexample is not None:
        counterexample = with_processing(counterexample, processing)
    if counterexample is None:
        return
    with suppress(CannotEnumerate, *BISECTION_FAILURES, OutOfTime, TooManyPaths):
        judged = examiner.judge(counterexample)
        if judged.failed:
            # It fails on a replay too, and is no larger: show this counterexample.
            confirmed = confirm_failure(examiner, judged)
            if confirmed.failure is not None or failure is None:
                record_failure(tier, confirmed)


def default_paths(rule: Callable[..., Any]) -> int:
    """Return the default paths, but for draft trees: fewer where the code's names show torch."""
    module = sys.modules.get(getattr(rule, "__module__", ""), None)
    names = {**(vars(module) if module else {}), **getattr(rule, "__globals__", {})}
    modules = (x.__name__ for x in names.values() if isinstance(x, ModuleType))
    torch = any(name.partition(".")[0] == "torch" for name in modules)
    return MAX_TORCH_PATHS if torch else MAX_BATTERY_PATHS
