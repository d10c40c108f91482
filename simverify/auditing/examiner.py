"""The examiner: the code's exact law on one instance, held against the target's and the faults'."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.auditing import instances
from simverify.auditing.coins import BISECTION_FAILURES, TooManyCalls, compare_coins
from simverify.auditing.comparison import (
    Comparison,
    PrecisionCheck,
    Transcripts,
    assess_precision,
    assess_reported_precision,
    certain_deviation,
    compare_blocks,
    compare_tokens,
    prefix_probability,
    total_variation,
)
from simverify.auditing.drafters import compare_drafts
from simverify.auditing.enumeration import (
    NO_EXTRA_CALLS,
    ExtraCalls,
    Generation,
    StepEnumeration,
    enumerate_generation,
    eos_absorbing,
    takes_tree_arguments,
)
from simverify.auditing.instances import SmallModel, max_tree_count, with_processing
from simverify.auditing.search import is_from_search
from simverify.auditing.subject import Contract, Subject
from simverify.auditing.trees import compare_trees, first_call_as_tree_rule, tree_as_step
from simverify.disk_cache import cached_on_disk
from simverify.faults import FAULTS
from simverify.faults.base import Fault
from simverify.models.distribution import ORDERS, STAGES, Law
from simverify.options.option import Sizes
from simverify.results import Diagnosis
from simverify.roles import role_of_module
from simverify.symbolic import Enumeration, Float64Promotion
from simverify.symbolic.engine import Budget
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.provenance import CannotEnumerate, OutOfTime
from simverify.symbolic.source import charge_effort_to
from simverify.symbolic.watchdog import Stopwatch
from simverify.trees import SCHEMES

P = ParamSpec("P")
T = TypeVar("T")

MAX_BATTERY_PATHS = 60_000
"""Paths of the whole battery."""

EXACT_TIER_SECONDS = Sizes.seconds
"""Limit of the exact tier; it only aborts, to INCONCLUSIVE. Processor seconds, where the code
does not sleep: a busy machine changes no verdict."""

BATTERY_BUDGET = Budget(MAX_BATTERY_PATHS, EXACT_TIER_SECONDS)

MAX_INTERVAL = 1e-6
"""Widest interval of a law that is accepted from code whose paths have no end."""

MAX_STEP_PATHS = 4_000
"""Most paths of one instance under the step contract."""


@dataclass(frozen=True)
class ExactResult:
    """One instance and the code's exact law on it."""

    model: SmallModel
    comparison: Comparison
    violated: bool
    deviates: bool
    undecided: bool
    held: PrecisionCheck

    @property
    def failed(self) -> bool:
        """Whether the code broke its contract, or its law is not the target's."""
        return self.violated or self.deviates


@dataclass(frozen=True)
class Examiner:
    """Enumerates the subject on instances and compares its law with the target's.

    ``enumeration``: one that is set up for the rule; without it each instance sets up its own.
    ``leaves``: how many paths' ends such a one counts as checked for untracked randomness.
    ``beyond``: the calls beyond the first tokens; None: after each way in which earlier calls can
    end on the core and instances like it. ``lifted``: enumerations of the lifted code, shared by
    examiners that differ in their budgets alone.
    """

    subject: Subject
    contract: Contract
    tolerance: float | None = None
    budget: Budget = BATTERY_BUDGET
    enumeration: Enumeration | None = None
    leaves: int = 0
    beyond: ExtraCalls | None = None
    lifted: dict[Float64Promotion, Enumeration] = field(
        default_factory=dict, compare=False, repr=False
    )

    def within(self, **limits: Any) -> "Examiner":
        """Return the examiner with another budget of ``paths``, ``seconds`` or ``enough``."""
        return replace(self, budget=replace(self.budget, **limits))

    def judge(self, model: SmallModel) -> ExactResult:
        """Exact law on one instance. Raises as :mod:`simverify.auditing.enumeration` does."""
        holding = assess_reported_precision if self.contract == "draft" else assess_precision
        held = holding(lambda lift: self.compare(model, lift), self.tolerance)
        comparison = held.comparison
        violated = any(finding.severity == "violation" for finding in comparison.findings)
        # What was not run may lie anywhere: it fails nobody, and it passes nobody.
        # What was lost broke the contract: it is a finding, and no law.
        # A law that is known in part only does not deviate.
        deviates = comparison.complete and certain_deviation(comparison) > held.tolerance
        within = held.tolerance
        if self.budget.enough is not None and self.tolerance is None:
            within = max(within, MAX_INTERVAL)
        known = comparison.max_abs_deviation - comparison.lost
        undecided = not deviates and (bool(held.doubt) or known > within)
        return ExactResult(model, comparison, violated, deviates, undecided, held)

    def compare(self, model: SmallModel, lift: Float64Promotion | None = None) -> Comparison:
        """Return the law on one instance, of code that computes with types lifted to float64."""
        rule = self.subject.rule
        limits: Any = {"tolerance": self.tolerance, "budget": self.budget}
        if self.subject.coin_bits is not None:
            return compare_coins(
                rule,
                model,
                model.gamma,
                bits=self.subject.coin_bits,
                coins=self.subject.coins,
                tolerance=self.tolerance,
                max_calls=self.budget.paths,
                seconds=self.budget.seconds,
                expected=model.expected,
            )
        with ExitStack() as stack:
            enumeration = None if lift else self.enumeration
            if enumeration is None:
                if self.enumeration is not None:
                    # Another one is set up with real generators.
                    self.enumeration.release()
                enumeration = self._another(lift)
                if self.enumeration is not None:
                    payer = self.enumeration.source
                    stack.enter_context(charge_effort_to(payer, enumeration.source))
                stack.enter_context(enumeration)
            enumeration.source.sites.learn()
            if isinstance(enumeration, StepEnumeration):
                return self._compare_tokens(enumeration, rule, model)
            if self.contract == "draft":
                return compare_drafts(enumeration, rule, model, **limits)
            limits["expected"] = model.expected
            if model.drafting is not None:
                return compare_trees(enumeration, rule, model, model.drafting, **limits)
            return compare_blocks(enumeration, rule, model, model.gamma, **limits)

    def _another(self, lift: Float64Promotion | None) -> Enumeration:
        """Return a new enumeration; of lifted code the one that has been checked already."""
        if lift is not None and lift in self.lifted:
            return self.lifted[lift]
        made = make_enumeration(self.subject, self.contract, self.leaves, lift)
        if lift is not None and self.enumeration is not None:
            self.lifted[lift] = made
        return made

    def _compare_tokens(
        self, enumeration: StepEnumeration, rule: Callable[..., Any], model: SmallModel
    ) -> Comparison:
        budget, extra = self.budget, self.beyond
        if model.drafting is None:
            budget = replace(budget, paths=min(budget.paths, MAX_STEP_PATHS))
        else:
            rule = tree_as_step(rule, model.drafting)
        if extra is None and model.drafting is not None and not model.core:
            extra = NO_EXTRA_CALLS  # trees are many, and what an object hides shows on the core
        elif extra is None:
            every_way = model.core or model.name in instances.ALL_HISTORIES_INSTANCES
            extra = ExtraCalls(every_way=every_way, due=model.core)
        given = model.target, model.draft, model.gamma, output_length(model, "step")
        generation = Generation(*given, model.prompt, model.earlier_calls, model.eos)
        law = enumerate_generation(enumeration, rule, generation, budget, beyond=extra)
        target = eos_absorbing(model.expected, model.eos)
        known: Any = {"tolerance": self.tolerance, "accepted": law.accepted}
        return compare_tokens(law, lambda tokens: target(model.prompt + tokens), **known)

    def fails(self, model: SmallModel) -> bool:
        """Whether the code fails on ``model``; what cannot be enumerated does not count.

        Raises ``OutOfTime``.
        """
        try:
            return self.judge(model).failed
        except (CannotEnumerate, *BISECTION_FAILURES, TooManyCalls, TooManyPaths):
            return False


def make_enumeration(
    subject: Subject, contract: Contract, leaves: int = 0, lift: Float64Promotion | None = None
) -> Enumeration:
    """Return what follows the subject's rule, for any number of instances."""
    if judges_generations(subject, contract):
        return StepEnumeration(subject.rule, leaves=leaves, lift=lift)
    return Enumeration(subject.rule, seed_once=contract == "draft", leaves=leaves, lift=lift)


def judges_generations(subject: Subject, contract: Contract) -> bool:
    """Whether it is judged over generations: what drafts itself, and objects for draft trees."""
    return contract == "step" or (contract == "tree" and not takes_tree_arguments(subject.rule))


def output_length(model: SmallModel, contract: Contract) -> int:
    """How many tokens of the output are compared on ``model``."""
    # The paths of a rule that drafts itself go through every block of every call.
    few = (model.vocab_size == 2 or model.certain_drafts) and not model.earlier_calls
    return 2 if contract == "step" and model.gamma > 2 and not few else model.gamma + 1


# The catalogued faults: which of them a law resembles, and which a clean law refutes.


def verify_as_step(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ``verify`` rule as a ``step`` rule that drafts from the draft itself."""

    def step(prefix: Sequence[int], target: Any, draft: Any, gamma: int, rng: Any) -> Any:
        context = tuple(prefix)
        p, q, tokens = [target(context)], [], []
        for _ in range(gamma):
            q.append(draft(context))
            tokens.append(int(rng.choice(len(q[-1]), p=q[-1])))
            context = (*context, tokens[-1])
            p.append(target(context))
        return verify(np.array(p), np.array(q), np.array(tokens), rng)

    return step


_FAULT_SECONDS, _DIAGNOSIS_SECONDS = 5.0, 5.0
"""Processor time for the law of one fault, and for those of all that a failure is compared with."""

_LOSSLESS_TV = 1e-9
"""TV under which a fault's law is the target's."""

_MAX_COMPARED_TREES = 300
"""On instances with more draft trees the laws of all faults would take minutes."""

_TRUSTED_LEAVES = 10_000
"""Paths' ends of a catalogued fault that count as checked: nothing in it is untracked."""


def nearest_faults(
    subject: Subject, judged: ExactResult, contract: Contract, *, most: int = 3
) -> tuple[Diagnosis, ...]:
    """Return the catalogued faults whose laws are nearest to the subject's.

    On the failing instance, and if possible on a rich one that tells more faults apart.
    ``distance``: the larger TV distance of the completed outputs. Faults that cannot be enumerated,
    or that are right there, are left out, and so are those that there is no time for.
    """
    comparison = judged.comparison
    if contract == "tree" and judges_generations(subject, contract):
        # The catalogue's faults have no hidden state: compare the first call.
        subject = replace(subject, rule=first_call_as_tree_rule(subject.rule))
        first = _in_time(_examine_fault, Examiner(subject, contract, 0.0), judged.model)
        if first is None or first.tv <= _LOSSLESS_TV:
            return ()
        comparison = first
    laws = [(judged.model, comparison)]
    rich = rich_instance(contract, judged.model)
    richer = _in_time(_examine_fault, Examiner(subject, contract, 0.0), rich)
    # A rule for draft trees may be made for one shape alone.
    if richer is not None and not (contract in ("tree", "draft") and richer.findings):
        laws.append((rich, richer))
    laws = [x for x in laws if x[0].drafting is None or max_tree_count(x[0]) <= _MAX_COMPARED_TREES]
    if not laws:
        return ()
    # The cheaper instance first: what is far off there need not be run on the other.
    (cheap, its_law), *others = sorted(laws, key=lambda x: _draft_count(x[0]))
    bounds, watch = [], Stopwatch()
    for fault in _candidate_faults(contract, cheap):
        if watch.seconds() > _DIAGNOSIS_SECONDS:
            break
        if (law := _in_time(_fault_comparison, fault, contract, cheap)) is not None:
            bounds.append((_fault_distance(law, its_law), fault.name, law))
    diagnoses: list[Diagnosis] = []
    for least, name, law in sorted(bounds, key=lambda bound: bound[:2]):
        enough = len(diagnoses) == most and least > diagnoses[-1].distance
        if enough or watch.seconds() > _DIAGNOSIS_SECONDS:
            break
        pairs = [(law, its_law)]
        for model, other in others:
            at = _in_time(_fault_comparison, FAULTS[name], contract, model)
            if at is not None:
                pairs.append((at, other))
        # A fault that is right here is near every small deviation.
        if len(pairs) == len(laws) and any(at.tv > _LOSSLESS_TV for at, _ in pairs):
            distance = max(_fault_distance(*pair) for pair in pairs)
            diagnoses.append(Diagnosis(fault=name, distance=distance))
            diagnoses = sorted(diagnoses, key=lambda d: (d.distance, d.fault))[:most]
    return tuple(diagnoses)


def _draft_count(model: SmallModel) -> int:
    return max_tree_count(model) if model.drafting else int(model.vocab_size**model.gamma)


def _fault_distance(one: Comparison, other: Comparison) -> float:
    # Rounded, so that equal distances keep their order.
    return round(total_variation(one.emitted, other.emitted), 12)


def rich_instance(contract: Contract, failing: SmallModel) -> SmallModel:
    """Return an instance like the failing one whose rows have no zeros and are all different."""
    if failing.drafting is not None:
        made = instances.draft_instances if contract == "draft" else instances.tree_instances
        models = iter(made(failing.drafting.scheme, max_gamma=2, max_vocab=3, seed=0))
        name = "plain, V=3, tree 2,1"
    else:
        models = instances.instance_battery(3, 3)
        name = "plain, V=3, gamma=2" if contract == "verify" else "plain, V=2, gamma=2"
    rich = next(model for model in models if model.name == name)
    return with_processing(rich, failing.processing) or failing


def refuted_faults(
    contract: Contract, models: list[SmallModel], tolerance: float | None
) -> tuple[str, ...]:
    """Return the catalogued faults that the passed instances ``models`` would have shown."""
    if contract in ("tree", "draft"):
        telling = instances.fault_revealing_trees(models)
    else:
        # Most faults show on a plain one of two drafts, whose paths are few; some on rich ones.
        rich = sorted(models, key=lambda m: (m.vocab_size != 3, -m.gamma, m.family != "plain"))
        # Of a step rule, two drafts of three tokens have the most paths.
        first = [(3, 2)] if contract == "verify" else [(2, 2), (3, 1)]
        by_size = {(m.vocab_size, m.gamma): m for m in reversed(rich)}
        telling = [*(by_size[size] for size in first if size in by_size), *rich[:2]]
    # Few faults need the calls that look for what is hidden; only these get them.
    calls: tuple[ExtraCalls | None, ...] = (NO_EXTRA_CALLS, None) if contract == "step" else (None,)
    tries = [(model, tolerance, beyond) for beyond in calls for model in telling]
    return tuple(
        fault.name
        for fault in (_candidate_faults(contract, telling[0]) if telling else ())
        if any(_in_time(_fault_deviates, fault, contract, *given) for given in tries)
    )


def _candidate_faults(contract: Contract, model: SmallModel) -> list[Fault]:
    """Return the faults of ``model``'s scheme: on another their right rule is lossy too.

    They get rows that are processed already; none where that depends on the tokens before.
    """
    if instances.processed_model(model) is None:
        return []
    scheme = model.drafting.scheme.name if model.drafting else None
    drafts = contract == "draft"
    return [f for f in FAULTS.values() if (f.scheme, f.contract == "draft") == (scheme, drafts)]


def _in_time(judge: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return what ``judge`` does, None where its time is up."""
    try:
        return judge(*args, **kwargs)
    except OutOfTime:
        return None


def _catalogue_key(fault: Fault, contract: Contract, model: SmallModel, *more: Any) -> Any:
    """Return what a fault's law depends on, beside our sources.

    None for a fault or a scheme of somebody else, and for instances that the search made: they
    hardly come again.
    """
    scheme = model.drafting.scheme if model.drafting else None
    ours = FAULTS.get(fault.name) is fault and role_of_module(fault.rule.__module__)
    known = scheme is None or SCHEMES.get(scheme.name) is scheme
    if not (ours and known) or is_from_search(model):
        return None
    # A scheme's functions show where they lie; its name tells it from the others.
    plain = re.sub(r" at 0x[0-9a-f]+", "", repr(model))
    return fault.name, contract, plain, *more


@cached_on_disk(_catalogue_key)
def _fault_deviates(
    fault: Fault,
    contract: Contract,
    model: SmallModel,
    tolerance: float | None,
    beyond: ExtraCalls | None,
) -> bool:
    """Raises ``OutOfTime``: what a slow machine did not finish is not kept."""
    examiner = _fault_examiner(fault, contract, tolerance, beyond)
    given = instances.processed_model(model)
    return examiner is not None and given is not None and examiner.fails(given)


@cached_on_disk(_catalogue_key)
def _fault_comparison(fault: Fault, contract: Contract, model: SmallModel) -> Comparison | None:
    """Raises as :func:`_fault_deviates`."""
    examiner, given = _fault_examiner(fault, contract, 0.0), instances.processed_model(model)
    return None if examiner is None or given is None else _examine_fault(examiner, given)


def _examine_fault(examiner: Examiner, model: SmallModel) -> Comparison | None:
    """Raises ``OutOfTime``."""
    try:
        return examiner.within(seconds=_FAULT_SECONDS).judge(model).comparison
    except (CannotEnumerate, TooManyPaths):
        return None


def _fault_examiner(
    fault: Fault, contract: Contract, tolerance: float | None, beyond: ExtraCalls | None = None
) -> Examiner | None:
    """Return what examines the fault under ``contract``, None if it has no form there."""
    stepped = (fault.contract, contract) == ("verify", "step")
    # The faults of whole batches are right on every single block.
    if fault.batch is not None or not (stepped or fault.contract == contract):
        return None
    rule = verify_as_step(fault.rule) if stepped else fault.rule
    subject = Subject(fault.name, rule, contract)
    return Examiner(subject, contract, tolerance, leaves=_TRUSTED_LEAVES, beyond=beyond)


# The processing of the target that an output follows: code that cuts or tempers inside fails by the
# target as it is, and may mean to.


_MAX_FITTED = 8  # instances that a processing is fitted on, beside the failing one
_FIT_TOLERANCE, _ZERO = 1e-6, 1e-12
_MAX_DIGITS = 4  # of a temperature or a share that somebody wrote


def followed_processing(
    subject: Subject,
    contract: Contract,
    failing: SmallModel,
    models: Sequence[SmallModel],
    tolerance: float | None,
) -> Law | None:
    """Return the temperature and the cut of the target that the output follows, if it does.

    It is fitted to the first token on ``failing`` and on a few of ``models``, and then all of the
    output has to follow it there, as the exact tier judges.
    """
    if contract == "draft":
        return None
    examiner = Examiner(subject, contract, tolerance)
    # The calls that look for what is hidden come after the first token.
    first_calls = replace(examiner, beyond=NO_EXTRA_CALLS)
    short = [m for m in models if m.gamma == 1 and not (m.prompt or m.earlier_calls)]
    by_size = {m.vocab_size: m for m in reversed(short)}  # of each size the first
    some = sorted(by_size)[-_MAX_FITTED:]
    known = [replace(m, processing=None) for m in (failing, *(by_size[size] for size in some))]
    firsts: list[tuple[Row, Row]] = []
    for model in known:
        found = _examine_fault(first_calls, model)
        if found is None or not found.complete or isinstance(found.emitted, Transcripts):
            return None
        tokens = range(model.vocab_size)
        emitted = np.array([prefix_probability(found.emitted, (x,)) for x in tokens])
        firsts.append((model.target(model.prompt), emitted))
        if next(_fitted_processings(firsts), None) is None:
            return None  # what fits none of these fits none of more
    for law in _fitted_processings(firsts):
        made = (with_processing(model, law) for model in known)
        if law != failing.processing and all(
            model is None or _follows_target(examiner, model) for model in made
        ):
            return law
    return None


def _follows_target(examiner: Examiner, model: SmallModel) -> bool:
    try:
        judged = examiner.within(seconds=_FAULT_SECONDS).judge(model)
    except (CannotEnumerate, *BISECTION_FAILURES, OutOfTime, TooManyCalls, TooManyPaths):
        return False
    return not (judged.failed or judged.undecided)


def _fitted_processings(firsts: Sequence[tuple[Row, Row]]) -> Iterator[Law]:
    """Yield what may make the second of two rows of the first, in all pairs, the simplest first."""
    kept = [emitted > _ZERO for _, emitted in firsts]
    if not all(keep.any() for keep in kept):
        return  # code that always raises there
    if any((p[keep] == 0).any() for (p, _), keep in zip(firsts, kept, strict=True)):
        return
    temperature = _fitted_temperature(firsts, kept)
    if temperature is None:
        return
    orders = (STAGES,) if temperature == 1.0 else (STAGES, ORDERS["llamacpp"])
    cuts = [keep[p > 0].all() for (p, _), keep in zip(firsts, kept, strict=True)]
    if all(cuts):
        yield Law(temperature)
        return
    for order in orders:
        power = 1.0 if order != STAGES else 1.0 / temperature
        tempered = [(p / p.max()) ** power for p, _ in firsts]
        rows = [row / row.sum() for row in tempered]
        pairs = list(zip(rows, kept, strict=True))
        if any(row[~keep].max(initial=0.0) > row[keep].min() for row, keep in pairs):
            continue
        most = max(int(keep.sum()) for _, keep in pairs)
        if order == STAGES and all(keep.sum() in (most, (row > 0).sum()) for row, keep in pairs):
            yield Law(temperature, top_k=most)
        for name, limits in (("top_p", _top_p_limits), ("min_p", _min_p_limits)):
            low, high = np.transpose([limits(row, keep) for row, keep in pairs])
            share = _simplest_between(float(low.max()), float(high.min()))
            if share is not None:
                cut: dict[str, Any] = {name: share}
                yield Law(temperature, order=order, **cut)


def _fitted_temperature(
    firsts: Sequence[tuple[Row, Row]], kept: Sequence[npt.NDArray[np.bool_]]
) -> float | None:
    """Return the temperature of the tokens that are left; None if there is no one of all rows."""
    slopes = []
    for (p, emitted), keep in zip(firsts, kept, strict=True):
        x, y = np.log(p[keep]), np.log(emitted[keep])
        low, high = x.argmin(), x.argmax()
        if x[high] > x[low]:
            slopes.append((x[high] - x[low], y[high] - y[low]))
    widest = max(slopes, default=(1.0, 1.0))
    if widest[1] <= 0:
        return None
    temperature = float(f"{widest[0] / widest[1]:.{_MAX_DIGITS}g}")
    for (p, emitted), keep in zip(firsts, kept, strict=True):
        row = np.where(keep, p / p[keep].max(), 0.0) ** (1 / temperature)
        if np.abs(row / row.sum() - emitted).max() > _FIT_TOLERANCE:
            return None
    return temperature


def _top_p_limits(row: Row, keep: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return above which share, and up to which, top-p keeps just these tokens."""
    ranked = np.sort(row[keep])
    return float(ranked[1:].sum()), float(ranked.sum()) if row[~keep].any() else 1.0


def _min_p_limits(row: Row, keep: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return above which share of the likeliest, and up to which, min-p keeps just these tokens."""
    return float(row[~keep].max(initial=0.0) / row.max()), float(row[keep].min() / row.max())


def _simplest_between(low: float, high: float) -> float | None:
    """Return the number with the fewest digits above ``low`` and up to ``high``, below 1.

    A sum that is the share but for rounding counts as on either side.
    """
    for digits in range(1, _MAX_DIGITS + 1):
        number = float(f"{(low + min(high, 1.0)) / 2:.{digits}f}")
        if low - _ZERO < number <= high + _ZERO and 0.0 < number < 1.0:
            return number
    return None
