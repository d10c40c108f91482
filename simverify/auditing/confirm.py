"""A failure of the exact tier, confirmed on plain numbers before it is reported.

Paths say which tokens come out of which cell of the draws. How much a cell weighs rests on the
symbolic twins alone. So the code also makes calls on its own libraries' random numbers, without
twins, and a sequential test (Wald 1945) says which law their outputs follow: the one that was
enumerated, or the target's.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.auditing.comparison import (
    IMPOSSIBLE_TOKEN,
    RARE_PROBABILITY,
    Comparison,
    LawTree,
    Transcripts,
    certain_deviation,
)
from simverify.auditing.drafters import ReportedRows, build_drafter, draft_tree
from simverify.auditing.enumeration import (
    check_token_ids,
    decode_generation,
    eos_absorbing,
    read_tokens,
    takes_step_arguments,
)
from simverify.auditing.examiner import EXACT_TIER_SECONDS, ExactResult, Examiner, make_enumeration
from simverify.auditing.instances import (
    RowWeights,
    SmallModel,
    instance_battery,
    with_processing,
)
from simverify.auditing.sampled_runs import (
    ContractMisuse,
    SampledInstance,
    StaleDraw,
    TimeLimitReached,
    TrialRunner,
)
from simverify.auditing.sandbox import seeded_global_generators, suppress_warnings
from simverify.auditing.subject import Contract, Subject
from simverify.symbolic import CannotEnumerate, Finding
from simverify.symbolic.engine import EDGE_PROBABILITY
from simverify.symbolic.outcomes import RepeatResult, Tokens, Witness, repeat_witnesses
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.provenance import OutOfTime
from simverify.symbolic.streams import EQUAL_STREAMS
from simverify.symbolic.watchdog import DeadlineExpired, deadline

MAX_FREE_CALLS = 1_024
"""Most calls: larger deviations than a TV of some hundredths are decided by then."""

_CALLS_PER_STEP = 64
_CALL_SECONDS = 10.0
"""Of one call, which ends the test if it takes longer: what decides is the number of calls."""

SPRT_ERROR_RATE = 1e-3
"""Of each side of the test. The sampled tier judges a failure that is doubted by mistake."""

_MAX_LOG_RATIO = 7.0  # log likelihood ratio of one output at most: no single one decides
_CONSTANT_SEED_ALPHA = 1e-9
"""P-value under which outputs of code that seeds itself are not the target's."""

TokenLawArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SequentialCheck:
    """Calls of ``subject`` on its own random numbers."""

    subject: Subject
    contract: Contract

    def contradict(self, model: SmallModel, emitted: TokenLawArray) -> int:
        """Return how many calls show that the law is the target's and not ``emitted``.

        0 if it is not, or if it stays open. ``emitted``: float64 (V,) * length.
        """
        alone = not (model.prompt or model.earlier_calls or model.eos is not None)
        outputs = self._calls(model) if alone else self._generations(model)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = np.log(emitted) - np.log(_joint_target_law(model, emitted.ndim))
        evidence = np.nan_to_num(np.clip(evidence, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))
        with seeded_global_generators(0):
            some = itertools.islice(outputs, MAX_FREE_CALLS)
            return _calls_to_decide((n, evidence[x]) for n, x in enumerate(some, 1))

    def contradict_draft(self, model: SmallModel, comparison: Comparison) -> int:
        """As :meth:`contradict`, for a drafter: how many trees show that it drafts as it reports.

        Only calls like the one which deviates most count.
        """
        call, tokens = comparison.call, comparison.worst.tokens
        assert call is not None, "a drafter's distribution has a call that deviates most"
        assert model.drafting is not None, "and is of trees"
        shape, rng = model.drafting.shape, np.random.default_rng(0)

        def evidences() -> Iterator[tuple[int, float]]:
            for calls in range(1, MAX_FREE_CALLS + 1):
                with deadline(_CALL_SECONDS), suppress_warnings():
                    drafter = build_drafter(self.subject.rule)
                    drafted = draft_tree(drafter, shape, model.draft, rng, model.prompt).calls
                place = len(call.before)
                if place >= len(drafted) or tuple(x.tokens for x in drafted[:place]) != call.before:
                    continue
                drawn = drafted[place]
                if (
                    len(drawn.tokens) != len(tokens)
                    or np.abs(drawn.reported - call.reported).max() > ReportedRows.SAME
                ):
                    continue
                emitted, expected = comparison.worst.emitted, comparison.worst.due
                if drawn.tokens != tokens:
                    emitted, expected = 1 - emitted, 1 - expected
                # The smallest is far below what any count of calls could show.
                evidence = math.log(max(emitted, 1e-12)) - math.log(max(expected, 1e-12))
                yield calls, min(max(evidence, -_MAX_LOG_RATIO), _MAX_LOG_RATIO)

        with seeded_global_generators(0), suppress(DeadlineExpired, Exception, SystemExit):
            return _calls_to_decide(evidences())
        return 0

    def _calls(self, model: SmallModel) -> Iterator[Tokens]:
        """Yield the first tokens of outputs, as the sampled tier makes them."""
        runner = self._runner(model)
        with suppress(StaleDraw, ContractMisuse, TimeLimitReached):
            for calls in range(_CALLS_PER_STEP, MAX_FREE_CALLS + 1, _CALLS_PER_STEP):
                runner.run(calls)
                yield from map(tuple, runner.emissions.tokens[-_CALLS_PER_STEP:].tolist())

    def _generations(self, model: SmallModel) -> Iterator[Tokens]:
        """Yield the first tokens of generations of ``model``, filled up behind their end."""
        rule, length = self.subject.rule, model.gamma + 1
        rng = np.random.default_rng(0)
        is_step = takes_step_arguments(rule)
        instance: Any = None

        def generation() -> Tokens:
            nonlocal instance
            if instance is None and not is_step:
                instance = rule()  # one for all: a new one may begin with the same draws
            step = rule if instance is None else instance.step

            def more(prefix: Tokens) -> Tokens:
                tokens = read_tokens(step(prefix, model.target, model.draft, model.gamma, rng))
                check_token_ids(tokens, model.vocab_size)
                return tokens

            return decode_generation(
                more,
                getattr(instance, "reset", None),
                length=length,
                prefix=model.prompt,
                eos=model.eos,
                earlier_calls=model.earlier_calls,
            )

        fill = 0 if model.eos is None else model.eos
        while True:
            try:
                with deadline(_CALL_SECONDS), suppress_warnings():
                    tokens = generation()
            except (DeadlineExpired, Exception, SystemExit):
                return  # what the code raises is told elsewhere
            yield (*tokens, *[fill] * length)[:length]

    def drop_harmless_seed(self, model: SmallModel, repeats: RepeatResult) -> None:
        """Drop the finding of a constant seed after which the outputs are the target's."""
        if "constant-seed" in repeats.findings and not self.repeats_itself(model):
            repeats.findings.remove("constant-seed")

    def repeats_itself(self, seen_on: SmallModel) -> bool:
        """Whether calls leave the target on an instance of many outputs, as large as ``seen_on``.

        There the code seeded itself, which is no fault where what comes out follows the target.
        """
        processed = (with_processing(m, seen_on.processing) for m in instance_battery(3, 3))
        plain = [m for m in processed if m and m.family == "plain" and len(m.targets) > 1]
        sizes = max(seen_on.vocab_size, 3), max(seen_on.gamma, 2)
        model = min(plain, key=lambda m: abs(m.vocab_size - sizes[0]) + abs(m.gamma - sizes[1]))
        model = replace(model, drafting=seen_on.drafting)
        runner = self._runner(model)
        with suppress(StaleDraw, TimeLimitReached), seeded_global_generators(0):
            try:
                runner.run(MAX_FREE_CALLS // 2)
            except ContractMisuse:
                return True
            length = model.gamma + 1
            expected = runner.tables.joint(length) * len(runner.emissions)
            codes = runner.tables.codes(runner.emissions.tokens, length)
            seen, possible = np.bincount(codes, minlength=expected.size), expected > 0
            if seen[~possible].any():
                return True
            from scipy.stats import chisquare  # half a second that few processes need

            return bool(chisquare(seen[possible], expected[possible]).pvalue < _CONSTANT_SEED_ALPHA)
        return False

    def _runner(self, model: SmallModel) -> TrialRunner:
        subject = self.subject
        if model.drafting is not None:
            subject = subject.drafting_itself(model.drafting, self.contract)
        contract: Literal["verify", "step"] = "verify" if self.contract == "verify" else "step"
        instance = SampledInstance(model, model.gamma)
        return TrialRunner(subject.generator_rule(), contract, instance, seconds=_CALL_SECONDS)


def _calls_to_decide(evidences: Iterable[tuple[int, float]]) -> int:
    ratio, bound = 0.0, -math.log(SPRT_ERROR_RATE)
    for calls, evidence in evidences:
        ratio += evidence
        if abs(ratio) >= bound:
            return calls if ratio < 0 else 0
    return 0


def _joint_target_law(model: SmallModel, length: int) -> TokenLawArray:
    """Return the target's law of the first ``length`` tokens, (V,) * length."""
    row = eos_absorbing(model.expected, model.eos)
    law = np.ones(())
    for depth in range(length):
        rows = [row(model.prompt + tokens) for tokens in np.ndindex(law.shape)]
        law = law[..., None] * np.reshape(rows, (model.vocab_size,) * (depth + 1))
    return law


# The paths of a failing instance, run again without the symbolic twins, which may be wrong: on
# numbers out of each path's cell, in the types of the library that draws them. A path that ends
# otherwise there is a limit of the tool, or of code that keeps hidden state.

MAX_REPEATED_PATHS = 4_000
"""Paths of an instance that are repeated, heaviest first; the others count as not repeated."""

_PLAIN_NUMBERS_NOTE = "on plain numbers: a limit of this tool, or state that the code keeps"

_KNOWN_LEAVES = 10_000  # the instance was enumerated before: its leaves need not be looked at again


@dataclass(frozen=True)
class Confirmation:
    """What is left of a failure: ``failure``, or None and the ``limit`` that was met."""

    failure: ExactResult | None
    limit: CannotEnumerate | None = None
    note: str = ""


def confirm_failure(examiner: Examiner, judged: ExactResult) -> Confirmation:
    """Repeat a failure, and return what of it repeats."""
    if examiner.subject.coin_bits is not None:
        return Confirmation(judged)  # the coins are numbers already
    comparison, held, enumeration = judged.comparison, judged.held, examiner.enumeration
    free = SequentialCheck(examiner.subject, examiner.contract)
    if not comparison.complete and enumeration is not None and enumeration.stuck:
        repeats = repeat_witnesses(enumeration, [enumeration.stuck], most=MAX_REPEATED_PATHS)
        free.drop_harmless_seed(judged.model, repeats)
    else:
        repeats = _rerun_instance(examiner, judged.model)
    if comparison.impossible - repeats.missing > RARE_PROBABILITY:
        # The paths that repeat emit such tokens.
        repeats.findings.add(IMPOSSIBLE_TOKEN)
    findings = _repeated_findings(comparison.findings, repeats)
    violated = any(finding.severity == "violation" for finding in findings)
    deviates = judged.deviates and certain_deviation(comparison) - repeats.missing > held.tolerance
    calls, emitted = 0, comparison.emitted
    if any(finding.kind == EQUAL_STREAMS for finding in comparison.findings):
        pass  # after the calls of other probes their generators may be apart
    elif isinstance(emitted, Transcripts):
        calls = free.contradict_draft(judged.model, comparison) if deviates else 0
    elif deviates:
        calls = free.contradict(judged.model, _law_array(emitted, judged.model))
    if calls:
        deviates = False
        repeats.otherwise = (
            f"{calls} calls on random numbers follow the target instead of the distribution that "
            "they add up to"
        )
    if not (violated or deviates):
        return Confirmation(None, _unrepeated_limit(judged.model, comparison.findings, repeats))
    comparison = replace(comparison, findings=findings)
    held = replace(held, comparison=comparison)
    failure = replace(
        judged, comparison=comparison, violated=violated, deviates=deviates, held=held
    )
    note = _unrepeated_message(judged.model, repeats) if repeats.otherwise else ""
    return Confirmation(failure, note=note)


def _law_array(law: TokenLawArray | LawTree, model: SmallModel) -> TokenLawArray:
    """Return a law as an array (V,) * (gamma + 1)."""
    if not isinstance(law, LawTree):
        return law
    shape = (model.vocab_size,) * (model.gamma + 1)
    return np.array([law.mass(tokens) for tokens in np.ndindex(shape)]).reshape(shape)


def confirm_findings(
    examiner: Examiner, model: SmallModel, error: CannotEnumerate
) -> CannotEnumerate:
    """Return ``error`` with those of its findings that repeat."""
    if not any(finding.severity == "violation" for finding in error.findings):
        return error
    findings = _repeated_findings(error.findings, _rerun_instance(examiner, model))
    return CannotEnumerate(error.call, error.where, findings)


def _rerun_instance(examiner: Examiner, model: SmallModel) -> RepeatResult:
    """Enumerate ``model`` again, as far as that goes, and repeat its paths."""
    if examiner.enumeration is not None:
        examiner.enumeration.release()
    trails: list[Witness] = []
    with make_enumeration(examiner.subject, examiner.contract, _KNOWN_LEAVES) as enumeration:
        enumeration.trails = trails
        # What was run before it stopped is there.
        with suppress(CannotEnumerate, OutOfTime, TooManyPaths):
            examiner = replace(examiner, enumeration=enumeration)
            examiner.within(seconds=EXACT_TIER_SECONDS).compare(model)
        repeats = repeat_witnesses(enumeration, trails, most=MAX_REPEATED_PATHS)
    SequentialCheck(examiner.subject, examiner.contract).drop_harmless_seed(model, repeats)
    return repeats


def _repeated_findings(findings: Sequence[Finding], repeats: RepeatResult) -> tuple[Finding, ...]:
    """Return the findings but for violations that did not repeat."""
    return tuple(
        finding
        for finding in findings
        if finding.severity != "violation"
        or finding.kind in repeats.findings
        or repeats.masses.get(finding.kind, 0.0) > EDGE_PROBABILITY
    )


def _unrepeated_limit(
    model: SmallModel, findings: Sequence[Finding], repeats: RepeatResult
) -> CannotEnumerate:
    kinds = [finding.kind for finding in findings if finding.severity == "violation"]
    if repeats.otherwise or not kinds:
        return CannotEnumerate(_unrepeated_message(model, repeats))
    if kinds[0] == "constant-seed":
        return CannotEnumerate(
            "a generator seeded with a constant, or with one of a few drawn numbers, after which "
            "no output of the code leaves the target"
        )
    what = f"{kinds[0]} on {model.name}, which does not repeat"
    return CannotEnumerate(f"{what} {_PLAIN_NUMBERS_NOTE}")


def _unrepeated_message(model: SmallModel, repeats: RepeatResult) -> str:
    apart = repeats.paths - repeats.repeated
    what = f"{apart} of {repeats.paths} paths on {model.name}"
    how = f"; the first {repeats.otherwise}" if repeats.otherwise else ""
    return f"{what}, which {'do' if apart > 1 else 'does'} not repeat {_PLAIN_NUMBERS_NOTE}{how}"


# The kind of rows that a failure needs: code that divides by zero where p and q are disjoint, and
# is lossless elsewhere, is other news than code that is wrong on every row.

RowKind = Literal["plain", "equal", "zeros of p", "zeros of q", "zeros of both", "disjoint"]

ROW_KINDS: dict[RowKind, str] = {
    "plain": "on rows without zeros",
    "equal": "where p = q",
    "zeros of p": "where p has zeros",
    "zeros of q": "where q has zeros",
    "zeros of both": "where p and q have zeros",
    "disjoint": "where no token has both p > 0 and q > 0",
}
"""Kinds of instances, those with fewer peculiarities first, in words."""

_LOSSLESS_ROWS: dict[RowKind, str] = {
    "equal": "on rows without zeros in which p and q differ",
    "zeros of p": "on rows without zeros",
    "zeros of q": "on rows without zeros",
    "zeros of both": "on rows with zeros on one side at most",
    "disjoint": "on rows in which some token has both p > 0 and q > 0",
}
"""Where code is right whose first failing kind this is."""

_IMPLIED_KINDS: dict[RowKind, tuple[RowKind, ...]] = {
    "zeros of p": ("zeros of both", "disjoint"),
    "zeros of q": ("zeros of both", "disjoint"),
    "zeros of both": ("disjoint",),
}
"""Kinds whose rows have what the first has too."""


@dataclass(frozen=True)
class RowKindResult:
    """The exact tier on instances of one kind: ``whole`` if it came to an end on them."""

    judged: tuple[ExactResult, ...]
    failure: ExactResult | None
    whole: bool


@dataclass(frozen=True)
class FailingRows:
    """What kind of rows a failure needs."""

    known: RowKind  # of the failure that was found first
    failures: tuple[tuple[RowKind, ExactResult], ...]  # one for each kind on which the code fails
    right: tuple[ExactResult, ...]  # on instances without such rows; none if it fails on plain ones

    @property
    def kinds(self) -> tuple[RowKind, ...]:
        """Kinds of rows on which the code fails."""
        return tuple(kind for kind, _ in self.failures)

    def words(self) -> str:
        """Say where the code is right, and how it fails where; "" where that is no news."""
        if self.known == "plain":
            return ""
        if self.kinds[0] == "plain":
            return f"It also fails on rows without zeros: {failure_message(self.failures[0][1])}"
        worst = max(judged.comparison.max_abs_deviation for judged in self.right)
        scope = f"{len(self.right)} instances, largest deviation {worst:.2g}"
        # Failures that another one, of rows with fewer zeros, does not explain.
        apart: list[tuple[RowKind, ExactResult]] = []
        for kind, judged in self.failures:
            same = [k for k, other in apart if other.violated == judged.violated]
            if not any(kind in _IMPLIED_KINDS.get(k, ()) for k in same):
                apart.append((kind, judged))
        failures = "; ".join(
            f"{failure_message(judged)} {ROW_KINDS[kind]}" for kind, judged in apart
        )
        where = _LOSSLESS_ROWS[self.kinds[0]]
        return f"It is lossless {where} ({scope}). It fails elsewhere: {failures}"


def failure_message(judged: ExactResult) -> str:
    """Say how the code fails on an instance: its contract first."""
    for finding in judged.comparison.findings:
        if finding.severity == "violation":
            return finding.message
    return f"the distribution is off by TV {judged.comparison.tv:.3g}"


def row_kind_of(model: SmallModel) -> RowKind:
    """Return the kind of an instance: that of its most peculiar pair of rows."""
    pairs = [
        [(p * sum(drafts), q * sum(targets)) for p, q in zip(targets, drafts, strict=True)]
        for targets, drafts in zip(model.targets, model.drafts, strict=True)
    ]
    if not all(any(p and q for p, q in pair) for pair in pairs):
        return "disjoint"
    zero_p, zero_q = (any(cell[i] == 0 for pair in pairs for cell in pair) for i in (0, 1))
    if zero_p or zero_q:
        return "zeros of both" if zero_p and zero_q else "zeros of p" if zero_p else "zeros of q"
    return "equal" if any(all(p == q for p, q in pair) for pair in pairs) else "plain"


def with_positive_rows(model: SmallModel) -> SmallModel:
    """Return ``model`` with rows of its shape in which p and q differ and nothing is zero."""

    def filled(rows: tuple[RowWeights, ...], odd: int) -> tuple[RowWeights, ...]:
        return tuple(tuple(4 * w + 1 + (i + odd) % 2 for i, w in enumerate(row)) for row in rows)

    return replace(
        model,
        name=f"{model.name}, without zeros",
        targets=filled(model.targets, 0),
        drafts=filled(model.drafts, 1),
    )


def find_failing_rows(
    first: ExactResult,
    models: Iterable[SmallModel],
    run: Callable[[list[SmallModel], bool], RowKindResult],
) -> FailingRows | None:
    """Put the code on instances of each kind, plain ones first; None where that stays open.

    ``first``: the known failure. ``run(models, all)``: the exact tier on some instances, up to a
    failure; ``all`` of them, or the smallest that speak for the rest.
    """
    by_kind: dict[RowKind, list[SmallModel]] = {kind: [] for kind in ROW_KINDS}
    for model in models:
        by_kind[row_kind_of(model)].append(model)
    known = row_kind_of(first.model)
    twin = with_processing(with_positive_rows(first.model), first.model.processing)
    if twin is None:
        return None
    if known != "plain":
        by_kind["plain"].append(twin)
    failures: list[tuple[RowKind, ExactResult]] = []
    right: list[ExactResult] = []
    for kind, instances in by_kind.items():
        is_plain = kind == "plain"
        part = RowKindResult((), first, True) if kind == known else run(instances, is_plain)
        if part.failure is not None:
            failures.append((kind, part.failure))
            if is_plain:
                return FailingRows(known, tuple(failures), ())
            continue
        if is_plain and not (part.whole and twin in [judged.model for judged in part.judged]):
            return None
        right += [] if failures else part.judged
    return FailingRows(known, tuple(failures), tuple(right)) if right else None
