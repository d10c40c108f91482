"""The sampled tier for any callable: plan, looks, verdict.

What cannot be enumerated is run on instances so small that every context repeats, and what
it emits is counted against exact laws. The plan is stated before it starts: at most four
looks, at each of which the run may fail; it passes at its planned end alone. Slow code is looked at
a few times before there is a plan, so that a gross fault needs few of its calls.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from simverify import results, stats
from simverify.arrays import Floats, Ints
from simverify.auditing.enumeration import takes_step_arguments
from simverify.auditing.invocation import make_finding
from simverify.auditing.part_lines import lines_of_part
from simverify.auditing.sampled_runs import (
    MAX_OUTPUT_COUNT,
    Contract,
    ContractMisuse,
    Emissions,
    InstanceTables,
    SampledInstance,
    StaleDraw,
    TimeLimitReached,
    TrialRunner,
)
from simverify.auditing.sandbox import seeded_global_generators
from simverify.battery import battery
from simverify.models.rounding import COARSE_LOOKUPS, RowRounding
from simverify.options.option import Sizes
from simverify.stats.pits import MIN_PAIRS, PairSums
from simverify.stats.planning import LOOK_SCHEDULE, Look, plan_looks
from simverify.symbolic.equal_streams import put_back_equal_streams
from simverify.symbolic.watchdog import Stopwatch
from simverify.verifiers import VERIFIERS

_MIN_DEVIATIONS = 4.0  # standard deviations from which on an output is called too frequent


def choose_trial(
    runners: Sequence[TrialRunner], failed: Sequence[int], contract: Contract
) -> results.FailingTrial:
    """Return the trial that shows best what the instances numbered ``failed`` show.

    The first with a token of probability zero; else the first with the beginning of an output that
    is most too frequent, by standard deviations; else, where a dependence failed, the very first.
    """
    for runner in (runners[n] for n in failed):
        if (hit := _first_impossible_token(runner)) is not None:
            trial, position, token = hit
            why = f"the first with token {token} at position {position + 1}, where p = 0"
            return _failing_trial(runner, contract, trial, why)
    excess, number, trial, why = max(_most_overfrequent_prefix(runners[n]) for n in failed)
    if excess < _MIN_DEVIATIONS:
        number, trial = failed[0], 0
        why = "the first: no output alone is too frequent, what failed is how trials hang together"
    return _failing_trial(runners[number], contract, trial, why)


def _first_impossible_token(runner: TrialRunner) -> tuple[int, int, int] | None:
    """Return (trial, position, token) of the first emitted token of probability zero."""
    tokens, tables = runner.emissions.tokens, runner.tables
    hits = []
    for position, rows in enumerate(tables.target):
        probabilities = rows[tables.codes(tokens, position), tokens[:, position]]
        (trials,) = np.nonzero((probabilities == 0) & (runner.emissions.lengths > position))
        hits += [(int(n), position, int(tokens[n, position])) for n in trials[:1]]
    return min(hits, default=None)


def _most_overfrequent_prefix(runner: TrialRunner) -> tuple[float, int, int, str]:
    """Return (standard deviations, instance, trial, why) of the most too frequent beginning."""
    tokens, tables, n = runner.emissions.tokens, runner.tables, len(runner.emissions)
    best = (-np.inf, runner.number, 0, "")
    for length in range(1, tables.length + 1):
        law, codes = tables.joint(length), tables.codes(tokens, length)
        seen, expected = np.bincount(codes, minlength=law.size), n * law
        excess = (seen - expected) / np.sqrt(np.maximum(expected, 1.0))
        cell = int(excess.argmax())
        if excess[cell] > best[0]:
            # One that emitted all of it, rather than one that was completed to it.
            mask = (codes == cell) & (runner.emissions.lengths >= length)
            trial = int((mask if mask.any() else codes == cell).argmax())
            begins = ", ".join(map(str, tokens[trial, :length]))
            why = (
                f"the first that emits {begins}, the beginning of a completed output that is most "
                f"too frequent: {seen[cell]:,} of {n:,} trials, {expected[cell]:,.1f} due"
            )
            best = (float(excess[cell]), runner.number, trial, why)
    return best


def _failing_trial(
    runner: TrialRunner, contract: Contract, trial: int, why: str, *, pilot: bool = False
) -> results.FailingTrial:
    emitted = None
    if not pilot and trial < len(runner.emissions):
        length = runner.emissions.lengths[trial]
        emitted = tuple(runner.emissions.tokens[trial, :length].tolist())
    return results.FailingTrial(
        instance=_instance_rows(runner.instance, contract),
        number=runner.number,
        pilot=pilot,
        trial=trial,
        emitted=emitted,
        why=why,
    )


def _instance_rows(instance: SampledInstance, contract: Contract) -> results.Instance:
    model, depth = instance.model, instance.gamma
    if contract == "step":
        # The last call of an earlier generation may begin deeper than that of the output.
        depth += max(depth, (instance.earlier_calls - 1) * (depth + 1))
    prefixes = {
        ",".join(map(str, prefix)): prefix
        for length in range(depth + 1)
        for prefix in itertools.product(range(model.vocab_size), repeat=length)
    }
    return results.Instance(
        name=model.name,
        vocab_size=model.vocab_size,
        gamma=instance.gamma,
        target_probs={key: tuple(model.target(x).tolist()) for key, x in prefixes.items()},
        draft_probs={key: tuple(model.draft(x).tolist()) for key, x in prefixes.items()},
        expected_probs={key: tuple(instance.expected(x).tolist()) for key, x in prefixes.items()}
        if getattr(model, "processing", None) is not None
        else None,
        earlier_calls=instance.earlier_calls,
        eos=instance.eos,
    )


# Acceptance: how many tokens, and which, against the optimum, the rules and the target.

_RULES_WITH_KNOWN_LAW = ("block", "token", "match")
_ACCEPTANCE_ALPHA = 1e-4  # level at which accepted tokens are told apart, to say where a fault sits


def optimum_test(tables: InstanceTables, emissions: Emissions, alpha: float) -> stats.TestResult:
    """No lossless rule without state has a larger Pr(tau >= l), at any l, than block."""
    block = tables.curve(VERIFIERS["block"])
    levels = range(1, tables.instance.gamma + 1)
    tails = [int((emissions.accepted >= level).sum()) for level in levels]
    name = "acceptance above the optimum"
    return stats.acceptance_test(
        tails, len(emissions), np.zeros_like(block), block, alpha=alpha, name=name
    )


def accepts_above_target(tables: InstanceTables, emissions: Emissions) -> bool:
    """Whether some token is accepted more often than it may be emitted: acceptance is wrong."""
    from scipy import stats as scipy_stats  # half a second that few processes need

    log_p, cells = 0.0, 0
    for accepted, totals, target, _ in _acceptance_counts(tables, emissions):
        tail = scipy_stats.binom.logsf(accepted - 1, totals[:, None], target)
        log_p, cells = min(log_p, float(tail.min())), cells + target.size
    return bool(log_p + np.log(cells) < np.log(_ACCEPTANCE_ALPHA))


def accepts_as_token(tables: InstanceTables, emissions: Emissions) -> bool:
    """Whether accepted tokens follow the token rule's min(p, q), rejections its rest."""
    parts = []
    for accepted, totals, target, draft in _acceptance_counts(tables, emissions):
        if totals.any():
            mass = np.minimum(target, draft)
            law = np.column_stack([mass, np.maximum(1.0 - mass.sum(axis=1), 0.0)])
            counts = np.column_stack([accepted, totals - accepted.sum(axis=1)])
            parts.append(stats.transition_g2(counts, law / law.sum(axis=1, keepdims=True)))
    g2 = sum(parts[1:], parts[0])
    return g2.df > 0 and stats.g2_test(g2, alpha=0.5).log_pvalue > np.log(_ACCEPTANCE_ALPHA)


def _acceptance_counts(
    tables: InstanceTables, emissions: Emissions
) -> list[tuple[Ints, Ints, Floats, Floats]]:
    """Per judged slot: accepted tokens (contexts, V), all tokens (contexts,), p, q rows."""
    result = []
    for slot, (context, target, draft) in enumerate(tables.contexts[: tables.instance.gamma]):
        reached = emissions.lengths > slot
        contexts = context[tables.codes(emissions.tokens[reached], slot)]
        accepts = emissions.accepted[reached] > slot
        cell = contexts[accepts] * tables.vocab_size + emissions.tokens[reached, slot][accepts]
        accepted = np.bincount(cell, minlength=target.size).reshape(target.shape)
        result.append((accepted, np.bincount(contexts, minlength=len(target)), target, draft))
    return result


def optimality_text(
    tables: InstanceTables, emissions: Emissions, contract: Contract, alpha: float
) -> str:
    """Say how far E[tau] is from the optimum, and which rules it is like; it never decides."""
    values = emissions.accepted.astype(np.float64)
    if len(values) < 2:
        return "too few calls"
    if contract == "step":
        # How many drafts a position has is not known, so neither is the optimum.
        return f"the first call emits {values.mean() + 1:.4f} tokens on average"
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    most = float(tables.instance.gamma)
    low, high = stats.empirical_bernstein(
        mean, variance, len(values), low=0.0, high=most, error=alpha / 2
    )
    curves = {name: float(tables.curve(VERIFIERS[name]).sum()) for name in _RULES_WITH_KNOWN_LAW}
    best = curves["block"]
    alike = [name for name, value in curves.items() if low <= value <= high]
    place = "within error of" if high >= best else "below"
    text = f"E[tau] = {mean:.4f} ({low:.4f} to {high:.4f}), {place} the optimum {best:.4f} (block)"
    return text + (f"; as {' and '.join(alike)}" if alike else "")


# Independence: pairs of consecutive calls, of calls and rows at a few lags, and every single pair
# of rows, within a call and from one call to the next: row 3 may share the stream of row 10 alone,
# and row 0 may continue what the last row of the previous call left.

MAX_ROWS = 256  # rows of a batch whose pairs are tested one by one; of larger ones, the first

CALL_LAGS = (2, 3, 8, 64, 256)
"""Coins that come back: every second block those of a few calls before, rings of 64 and 256."""


def independence_tests(
    tables: InstanceTables, emissions: Emissions, uniforms: Floats, rows: int | None, alpha: float
) -> Iterator[stats.TestResult]:
    """Test pairs of calls in a row, and pairs of rows of a batch.

    ``uniforms`` (n,) randomise the PITs of the completed outputs; ``rows`` per call.
    """
    size = rows or 1
    share = stats.split_alpha(alpha, {"lags": 1.0, "every pair": 1.0} if size > 1 else {"lags": 1})
    law = tables.joint(tables.length)
    codes = tables.codes(emissions.tokens, tables.length)
    above = np.cumsum(law)
    pits = np.clip(above[codes] - (1.0 - uniforms) * law[codes], 0.0, 1.0)
    yield from _lag_tests(tables, emissions.tokens[:, 0], codes, pits, size, share["lags"])
    if size > 1 and len(codes) > size:
        every = codes.reshape(-1, size)[:, :MAX_ROWS], pits.reshape(-1, size)[:, :MAX_ROWS]
        yield from _row_pair_tests(*every, float((law**2).sum()), share["every pair"])


def _lag_tests(
    tables: InstanceTables, firsts: Ints, codes: Ints, pits: Floats, size: int, alpha: float
) -> Iterator[stats.TestResult]:
    n = len(codes)
    lags = {"consecutive calls": (size, n)}
    lags |= {f"calls {k} apart": (k * size, n) for k in CALL_LAGS if 2 * k * size <= n}
    lags |= {
        f"batch rows {lag} apart": (lag, size)
        for lag in sorted({1, 2, size // 2})
        if 0 < lag < size
    }
    alpha /= 5 * len(lags)
    chance = float((tables.joint(tables.length) ** 2).sum())
    for name, (lag, span) in lags.items():
        first = np.arange(n - lag)
        first = first[first % span + lag < span] if span < n else first
        if len(first) >= MIN_PAIRS:
            pairs = stats.pair_sums(pits[first], pits[first + lag])
            yield stats.pit_correlation(pairs, alpha=alpha, name=f"{name}: correlation")
        for phase in range(2):
            # Disjoint pairs within each of the batches; all calls are one.
            within = stats.disjoint_pairs(span, lag, phase)
            first = (np.arange(0, n, span)[:, None] + within).ravel()
            if not len(first):
                continue
            second, half = first + lag, f"{name}, phase {phase}"
            g2 = stats.pair_g2(firsts[first], firsts[second], tables.target[0][0])
            if g2.df > 0:
                test = stats.g2_test(g2, alpha=alpha, name=f"{half}: pairs of first tokens")
                yield replace(test, deviation="TV of the pair's distribution")
            equal, title = int((codes[first] == codes[second]).sum()), f"{half}: equal outputs"
            yield stats.duplicates_test(equal, len(first), chance, alpha=alpha, name=title)


def _row_pair_tests(
    codes: Ints, pits: Floats, chance: float, alpha: float
) -> Iterator[stats.TestResult]:
    """Test the worst pair of different rows (calls, rows), of one call and of two in a row.

    Over the calls, pairs of the same two rows share no member. Bonferroni over all pairs.
    """
    size = codes.shape[1]
    rows = np.arange(size)
    pairs = {
        "rows {} and {} of a call": (0, rows[:, None] < rows),
        "row {} and the next call's row {}": (1, rows[:, None] != rows),
    }
    number = sum(int(allowed.sum()) for _, allowed in pairs.values())
    each = alpha / (2 * len(pairs))
    for name, (later, allowed) in pairs.items():
        n = len(codes) - later
        first, second, u, v = codes[:n], codes[later:], pits[:n], pits[later:]
        equal = np.zeros((size, size), dtype=np.int64)
        for lag in range(1, size):
            # Row i of the first with row i + lag of the second, counted round.
            matches = (first == np.roll(second, -lag, axis=1)).sum(axis=0)
            equal[rows, (rows + lag) % size] = matches
        i, j = divmod(int(np.where(allowed, equal, -1).argmax()), size)
        count, title = int(equal[i, j]), name.format(i + 1, j + 1) + ": equal outputs"
        test = stats.duplicates_test(count, n, chance, alpha=each / number, name=title)
        yield _worst_of_many(test, number, each)
        if n >= MIN_PAIRS:
            products = (u - 0.5).T @ (v - 0.5)
            i, j = divmod(int(np.where(allowed, np.abs(products), -1.0).argmax()), size)
            spread = float(np.abs(u[:, i] - 0.5).sum())
            sums = PairSums(n=n, products=float(products[i, j]), spreads=spread)
            title = name.format(i + 1, j + 1) + ": correlation"
            test = stats.pit_correlation(sums, alpha=each / number, name=title)
            yield _worst_of_many(test, number, each)


def _worst_of_many(test: stats.TestResult, number: int, alpha: float) -> stats.TestResult:
    """Return the test of the worst of ``number`` pairs as one of all of them."""
    log_p = min(0.0, test.log_pvalue + math.log(number))
    method = f"{test.method}, Bonferroni over {number} pairs"
    return replace(test, log_pvalue=log_p, alpha=alpha, method=method)


# The tests of one instance's emissions at one look, and what they promise. How far E[tau] is from
# the optimum never decides, unless it is above it.


@dataclass(frozen=True)
class LookResult:
    """What the tests of one look say."""

    tests: tuple[stats.TestResult, ...]  # decide together with ``findings``
    findings: tuple[str, ...]
    detectable: float  # mean one-token TV, by position and rows, found with the run's power
    optimality: str  # never decides
    evidence: battery.LocalisationEvidence  # without the catalogue's part of it


@dataclass(frozen=True)
class LookBudget:
    """What a look at the first trials of a run may spend."""

    alpha: float  # the instance's share; the e-process of the named faults spends its own part once
    fraction: float  # what this look spends of the rest
    last: bool  # the named faults' test of fixed size comes at the last look alone
    power: float


def judge_emissions(
    runner: TrialRunner, contract: Contract, look: LookBudget, uniforms: Floats
) -> LookResult:
    """Test the emissions of one instance; ``uniforms`` (n,) in [0, 1) randomise the PITs."""
    tables, emissions = runner.tables, runner.emissions
    shares = battery.callable_shares(look.alpha)
    levels = {name: share * look.fraction for name, share in shares.items()}
    slots = counts_by_position(tables, emissions)
    verify = contract == "verify"
    faults = counts_by_slot(tables, emissions) if verify else _position_directions(slots)
    judged = battery.judge_tokens(
        slots, faults, shares, fraction=look.fraction, last=look.last, power=look.power
    )
    joint = list(_joint_tests(tables, emissions, levels["joint"]))
    pairs = list(
        independence_tests(tables, emissions, uniforms, runner.rows, levels["independence"])
    )
    tests = [*judged.tests, *joint, *pairs]
    lossy = optimum_test(tables, emissions, levels["acceptance"]) if verify else None
    tests += [lossy] if lossy else []
    prefix = f"{tables.instance.name}: "
    findings = [*judged.violations, *battery.rejection_findings(x for x in tests if x is not lossy)]
    if lossy is not None and lossy.rejected:
        findings.append(
            f"lossy: Pr(tau >= {lossy.level}) is {lossy.statistic:.4f} above block "
            f"verification, which no lossless rule without state exceeds "
            f"(p = {battery.pvalue_words(lossy.log_pvalue)})"
        )
    # An end of sequence cuts accepted tokens off: which token was accepted is not seen.
    apart = verify and tables.instance.eos is None
    evidence = battery.LocalisationEvidence(
        independence=any(test.rejected for test in pairs),
        tokens=bool(judged.violations) or any(test.rejected for test in (*judged.tests, *joint)),
        lossy=lossy is not None and lossy.rejected,
        by_slot=judged.by_slot,
        bonus=tables.instance.gamma if verify else None,
        named=None,
        accepted_too_much=accepts_above_target(tables, emissions) if apart else None,
        accepts_as_token=accepts_as_token(tables, emissions) if apart else None,
    )
    words = optimality_text(tables, emissions, contract, levels["optimality"])
    return LookResult(
        tuple(replace(test, name=prefix + test.name) for test in tests),
        tuple(prefix + finding for finding in findings),
        judged.detectable,
        prefix + words,
        evidence,
    )


def counts_by_position(tables: InstanceTables, emissions: Emissions) -> list[battery.SlotCounts]:
    """Emitted tokens by position and context; completion tokens are not counted."""
    slots = []
    for position, (context, target, draft) in enumerate(tables.contexts):
        emitted = emissions.tokens[emissions.lengths > position]
        cell = context[tables.codes(emitted, position)] * tables.vocab_size + emitted[:, position]
        counts = np.bincount(cell, minlength=target.size).reshape(target.shape)
        slots.append(battery.SlotCounts(f"position {position + 1}", counts, target, draft))
    return slots


def counts_by_slot(tables: InstanceTables, emissions: Emissions) -> battery.FaultCounts:
    """Tokens of first calls by whole prefix, and what every fault emits there."""
    size = tables.vocab_size
    reached = np.minimum(emissions.accepted + 1, emissions.lengths)
    parts = []
    for slot, (target, laws) in enumerate(zip(tables.target, tables.slot_laws, strict=True)):
        emitted = emissions.tokens[reached > slot]
        counts = np.bincount(tables.codes(emitted, slot + 1), minlength=target.size)
        parts.append((counts.reshape(-1, size), target, laws))
    return battery.fault_counts(battery.detectable_faults(prefix=True, first_row=True), parts)


_PRECISION_ALPHA = 1e-3
"""Rate at which what the code does is wrongly excluded, where that is a sampler of few digits."""


def precision_words(parts: Sequence[tuple[InstanceTables, Emissions]]) -> str | None:
    """Say which sampler of few digits failing code may draw its own tokens with; None: none.

    It accepts drafts as the token rule does, and looks up what replaces or follows them.
    """
    slots = [
        (slot, position == tables.instance.gamma)
        for tables, emissions in parts
        for position, slot in enumerate(counts_by_position(tables, emissions))
        if slot.counts.sum()
    ]

    def log_pvalue(lookup: RowRounding) -> float:
        each = [stats.transition_g2(x.counts, _drawn_by(lookup, x, bonus)) for x, bonus in slots]
        g2 = sum(each[1:], each[0])
        # Counts of rows with one possible token say nothing of how it is drawn.
        return stats.g2_test(g2, alpha=_PRECISION_ALPHA).log_pvalue if g2.df else 0.0

    limit = math.log(_PRECISION_ALPHA)
    if not slots or log_pvalue(np.array) > limit:
        return None
    best = max(COARSE_LOOKUPS, key=lambda words: log_pvalue(COARSE_LOOKUPS[words]))
    return best if log_pvalue(COARSE_LOOKUPS[best]) > limit else None


def _drawn_by(lookup: RowRounding, slot: battery.SlotCounts, bonus: bool) -> Floats:
    """Return the rows (contexts, V) of a slot whose tokens, but for drafts, a sampler looks up."""
    accepted = np.minimum(slot.target, slot.draft) * (not bonus)
    rest = slot.target - accepted
    mass = rest.sum(axis=1, keepdims=True)
    rows = np.divide(rest, mass, out=slot.target.copy(), where=mass > 0)
    drawn = accepted + mass * lookup(rows)
    normalised: Floats = drawn / drawn.sum(axis=1, keepdims=True)
    return normalised


def _position_directions(slots: list[battery.SlotCounts]) -> battery.FaultCounts:
    """Tokens by position against what faults emit in a judged slot, for code without slots."""
    faults = battery.detectable_faults(prefix=False, first_row=False)
    return battery.fault_counts(
        faults,
        [(x.counts, x.target, battery.single_slot_rows(faults, x.target, x.draft)) for x in slots],
    )


def _joint_tests(
    tables: InstanceTables, emissions: Emissions, alpha: float
) -> Iterator[stats.TestResult]:
    """Laws of the first tokens together: what depends on more of the past than the rows do."""
    for k in range(2, tables.length + 1):
        law = tables.joint(k)
        seen = np.bincount(tables.codes(emissions.tokens, k), minlength=law.size)
        g2 = stats.transition_g2(seen[None], law[None])
        if g2.df > 0:
            share = alpha / (tables.length - 1)
            test = stats.g2_test(g2, alpha=share, name=f"first {k} tokens")
            yield replace(test, deviation="joint TV")


# The plan of a sampled run: sized on a pilot, stated before the run starts.

PILOT_TRIALS = 1024  # they size the run and never enter its tests
PILOT_SHARE = 0.05
"""Part of the time limit that pilots may take; those of slow code have fewer trials."""

FIRST_PILOTS, FIRST_PILOTS_SECONDS = 4, 0.5
"""So many calls are made if they take less: the first says little of those that follow."""

PILOT_SAMPLES_SHARE = 0.25
"""The same of the budget of trials."""

PLANNED_TV_SHARE = 0.95
"""Part of the TV asked for that is planned with: a right verifier's own sway stays below it."""

TRIAL_MARGIN = 1.06  # trials above what the pilot asks for: the pilot's own error, and whole tokens
SAMPLING_VARIATION = 6.0
"""Tokens of a context sway by the square root of their number: n trials are planned for a TV
smaller by this over sqrt(n). Measured: up to a tenth of the TV at 2,000 trials."""

SLOWDOWN_ALLOWANCE = 1.2  # so much longer than in the pilot the calls may take

COARSE_TV_FACTOR, MAX_COARSE_TV = 3.0, 0.3
"""A coarse instance is asked for so many times the TV, for a ninth of the trials; from
``MAX_COARSE_TV`` on it is asked for no more than the others."""

SLOW_CALL_SECONDS = 2e-3
"""Code whose calls take longer is looked at early: it would take seconds to come to the first look
of its plan. Of faster code more tokens are waited for, since they say better what is wrong."""

EARLY_LOOKS = (25, 50, 100, 200, 400)
"""Trials of an instance at which slow code is looked at before there is a plan."""

EARLY_SHARE = 1 / 16
"""Part of an instance's alpha that all early looks spend together: half of the first look's."""

EARLY_SECONDS_SHARE = 0.4
"""Part of the time limit that the early looks may take, but for the very first."""


@dataclass(frozen=True)
class SamplePlan:
    """How many trials each instance gets, and the TV that is found there with the run's power.

    ``seconds``: how long its calls take, by the pilot; ``needed``: how long those that ``detect``
    needs would take, where there is no time for all of them.
    """

    instances: tuple[str, ...]
    samples: tuple[int, ...]
    detectable: tuple[float, ...]
    alpha: float
    power: float
    detect: float  # what the run is for
    seconds: float
    needed: float

    @property
    def line(self) -> str:
        """The plan in one line, for the user to read before it starts."""
        each = zip(self.instances, self.samples, self.detectable, strict=True)
        runs = ", ".join(f"{n:,} on {x}, TV {tv:.4f}" for x, n, tv in each)
        return (
            f"{sum(self.samples):,} calls, about {self.seconds:.0f} s; {len(LOOK_SCHEDULE)} looks; "
            f"false-alarm rate {self.alpha:g}; with probability {self.power:g} a mean one-token "
            f"TV is found where it is as large as stated: {runs}"
        )


def instance_detect(instance: SampledInstance, detect: float) -> float:
    """Return the mean one-token TV that a run for ``detect`` is to find on ``instance``."""
    return max(detect, min(COARSE_TV_FACTOR * detect, MAX_COARSE_TV)) if instance.coarse else detect


class Pilots:
    """The pilots of all instances: how long a trial takes, and which contexts it meets."""

    def __init__(self, runners: Sequence[TrialRunner], clock: Stopwatch) -> None:
        self.runners, self._clock = runners, clock
        self.seconds: list[float] = [0.0] * len(runners)
        """Seconds that a trial of each took, in the longer half of what was run."""
        self.fastest: list[float] = [math.inf] * len(runners)
        """The same where it took least: not of the first trial, nor of one that was held up."""

    @property
    def trials(self) -> int:
        """Trials of all of them so far."""
        return sum(len(runner.emissions) for runner in self.runners)

    def run(self, most: int, seconds: float) -> None:
        """Run up to ``most`` trials of each, twice as many each time, for about ``seconds``."""
        rows = self.runners[0].rows or 1
        done = len(self.runners[0].emissions)

        def affordable() -> bool:
            limit = max(seconds, FIRST_PILOTS_SECONDS) if done < FIRST_PILOTS * rows else seconds
            return not done or 2 * done * math.fsum(self.seconds) <= limit

        while done < most and affordable():
            done, before = min(2 * done or rows, whole_batches(most, rows)), done
            for place, runner in enumerate(self.runners):
                started = self._clock.seconds()
                runner.run(done)
                took = (self._clock.seconds() - started) / (done - before)
                self.seconds[place] = took
                self.fastest[place] = min(self.fastest[place], took)


def plan_samples(
    pilots: Pilots,
    *,
    alpha: float,
    detects: Sequence[float],
    power: float,
    samples: int,
    seconds: float,
    done: Sequence[int],
) -> SamplePlan | None:
    """Size the run on each instance by its pilot; ``done``: trials that it already has.

    Each instance gets as many trials, in whole batches, as promise the first of ``detects`` whose
    calls take less than ``seconds``, or the last if none does; all proportionally fewer if they
    would take longer still, or if they and the pilots would exceed ``samples``. None if that leaves
    an instance next to nothing.
    """
    runners = pilots.runners
    rows = runners[0].rows or 1
    budget = samples - pilots.trials
    least = 4 * rows * len(runners)
    if budget < least:
        return None
    share = alpha / len(runners)
    seconds /= SLOWDOWN_ALLOWANCE

    def duration(trials: Sequence[int]) -> float:
        each = zip(trials, done, pilots.seconds, strict=True)
        return math.fsum(max(n - known, 0) * took for n, known, took in each)

    for detect in detects:
        asked_for = ((x, instance_detect(x.instance, detect)) for x in runners)
        trials = (_required_trials(x, share, tv, power) for x, tv in asked_for)
        wanted = [whole_batches(n, rows) for n in trials]
        if (needed := duration(wanted)) <= seconds:
            break
    part = min(1.0, budget / sum(wanted), seconds / needed if needed else 1.0)
    if part < 1.0 and part * sum(wanted) < least:
        return None
    chosen = [n if part == 1.0 else max(int(n * part) // rows, 1) * rows for n in wanted]
    sizes = list(zip(runners, chosen, strict=True))
    return SamplePlan(
        instances=tuple(runner.instance.name for runner in runners),
        samples=tuple(chosen),
        detectable=tuple(_detectable_tv(runner, n, share, power) for runner, n in sizes),
        alpha=alpha,
        power=power,
        detect=detect,
        seconds=duration(chosen),
        needed=needed,
    )


def whole_batches(trials: int, rows: int) -> int:
    """Round ``trials`` up to a multiple of ``rows``."""
    return -(-trials // rows) * rows


def _detectable_tv(pilot: TrialRunner, trials: int, alpha: float, power: float) -> float:
    """TV that the last look finds after so many trials, by the contexts that the pilot met."""
    slots = counts_by_position(pilot.tables, pilot.emissions)
    scale = trials / len(pilot.emissions)
    totals = [np.rint(slot.counts.sum(axis=1) * scale).astype(np.int64) for slot in slots]
    parts = [
        stats.expected_g2(total, slot.target)
        for total, slot in zip(totals, slots, strict=True)
        if total.any()
    ]
    shares = battery.callable_shares(alpha * LOOK_SCHEDULE[-1][1])
    return battery.detectable_deviation(parts, slots, shares, power=power)


def _required_trials(pilot: TrialRunner, alpha: float, detect: float, power: float) -> int:
    """Smallest number of trials that promises ``detect``, by bisection, with a margin."""
    most = 1024

    def fits(trials: int) -> bool:
        aim = PLANNED_TV_SHARE * detect * (1.0 - SAMPLING_VARIATION / math.sqrt(trials))
        return _detectable_tv(pilot, trials, alpha, power) <= aim

    while not fits(most) and most < 1 << 40:
        most *= 2
    least = most // 2
    while most - least > most // 64:
        middle = (least + most) // 2
        least, most = (least, middle) if fits(middle) else (middle, most)
    return math.ceil(most * TRIAL_MARGIN)


def findings_of_tests(texts: Iterable[str]) -> list[results.Finding]:
    """Return what the sampled tier's tests found as findings of the audit."""
    return [results.Finding(kind="tests", text=text) for text in texts]


CERTIFICATE_DELTA = 1e-3
MAX_SAMPLES = Sizes.max_samples
SAMPLED_TIER_SECONDS = Sizes.seconds

STALE_DRAWS_REASON = "the code keeps draws of the exact tier: build its tables in each call"


@dataclass(frozen=True)
class SampledAudit:
    """Verdict of the sampled tier."""

    verdict: results.Verdict
    tier: results.SampledTier
    plan: SamplePlan | None  # None where the code failed before there was one
    reason: str | None  # why the verdict is INCONCLUSIVE
    trial: results.FailingTrial | None = None  # one that shows what failed
    hurried: str | None = None  # less was asked for, for want of time


def sample_callable(
    rule: Callable[..., Any],
    contract: Contract,
    *,
    instances: Sequence[SampledInstance],
    seed: int,
    alpha: float = 1e-6,
    detect: float = 0.01,
    coarser: Sequence[float] = (),
    power: float = 0.9,
    samples: int = MAX_SAMPLES,
    seconds: float = SAMPLED_TIER_SECONDS,
    batch: int | None = None,
    say: Callable[[str], None] | None = None,
) -> SampledAudit:
    """Put ``rule`` on trial by sampling.

    ``rule``: a step rule may be a class or factory, built anew per trial, and is run from reset
    until gamma + 1 tokens are out. ``instances``: each gets an equal part of alpha, and as many
    trials as it needs. ``seed``: of drafts, streams and completions. ``alpha``: probability that a
    lossless rule fails; optimality spends a tenth of it apart. A mean one-token TV of ``detect``,
    by position and rows, is found with probability ``power`` on any instance (a larger one on a
    coarse instance, see :func:`instance_detect`), or the verdict is INCONCLUSIVE. ``coarser``:
    asked for in turn where ``detect`` would take longer than ``seconds`` by the pilot.
    ``samples``: budget of trials, with the pilots'. ``seconds``: limit, which ends the run, to
    INCONCLUSIVE: of processor time and of what the code sleeps. ``batch``: B of a batched verify
    rule: ``rule(target_probs (B, gamma+1, V), draft_probs (B, gamma, V), draft_tokens (B, gamma),
    rng)`` returns int (B, gamma+1), padded with -1, or a list of B rows; None: no batch axis.
    ``say`` gets the plan in one line before the run. Raises ``ValueError`` if an argument is out of
    range, or ``rule`` fits neither form of its contract.
    """
    detects = (detect, *coarser)
    run = _SampledRun(
        rule, contract, tuple(instances), seed, alpha, detects, power, samples, seconds, batch
    )
    with seeded_global_generators(seed):
        put_back_equal_streams()
        return run.run(say)


@dataclass(eq=False)
class _SampledRun:
    rule: Callable[..., Any]
    contract: Contract
    instances: tuple[SampledInstance, ...]
    seed: int
    alpha: float
    detects: tuple[float, ...]
    power: float
    samples: int
    seconds: float
    batch: int | None
    judged: list[LookResult | None] = field(default_factory=list)
    looks: int = 0
    plan: SamplePlan | None = None
    clock: Stopwatch = field(init=False)

    def __post_init__(self) -> None:
        if self.contract not in ("verify", "step"):
            raise ValueError(f"contract is {self.contract!r}: pass 'verify' or 'step'")
        if not self.instances:
            raise ValueError("instances are empty: pass one or more, as default_instances() gives")
        for x in self.instances:
            if x.gamma < 1 or x.model.vocab_size ** (x.gamma + 1) > MAX_OUTPUT_COUNT:
                raise ValueError(
                    f"{x.name} has {x.model.vocab_size}^{x.gamma + 1} outputs: pass gamma 1 or "
                    f"more and at most {MAX_OUTPUT_COUNT} outputs"
                )
        rates = [("alpha", self.alpha), *(("detect", x) for x in self.detects)]
        for name, value in (*rates, ("power", self.power)):
            if not 0 < value < 1:
                raise ValueError(f"{name} is {value}: pass a number strictly between 0 and 1")
        if self.samples < 1 or not self.seconds > 0:
            raise ValueError(
                f"samples={self.samples}, seconds={self.seconds}: both must be positive"
            )
        if self.batch is not None and (self.batch < 1 or self.contract == "step"):
            given = f"batch is {self.batch} under {self.contract}"
            raise ValueError(f"{given}: pass 1 or more rows, under verify")

    def run(self, say: Callable[[str], None] | None) -> SampledAudit:
        self.clock = Stopwatch(sleeps=True)
        runners = self._runners(pilot=False)
        self.judged = [None] * len(runners)
        try:
            return self._result(runners, self._look(runners, say))
        except ContractMisuse as error:
            return self._result(runners, None, error)
        except TimeLimitReached:
            calls = sum(len(runner.emissions) for runner in runners)
            reason = f"the time limit of {self.seconds:g} s passed after {calls:,} calls"
            return self._result(runners, f"{reason}: raise --seconds")
        except StaleDraw:
            return self._result(runners, STALE_DRAWS_REASON)

    @property
    def _left(self) -> float:
        return self.seconds - self.clock.seconds()

    @property
    def _failed(self) -> bool:
        return any(look is not None and look.findings for look in self.judged)

    def _look(self, runners: list[TrialRunner], say: Callable[[str], None] | None) -> str | None:
        """Plan the run and judge it look by look; return why it ended without a verdict, if so."""
        pilots = Pilots(self._runners(pilot=True), self.clock)
        enough = whole_batches(PILOT_TRIALS, self.batch or 1)
        most = min(enough, int(PILOT_SAMPLES_SHARE * self.samples) // len(runners))
        pilots.run(most, len(runners) * SLOW_CALL_SECONDS)
        slow = max(pilots.fastest) > SLOW_CALL_SECONDS * (self.batch or 1)
        if slow:
            self._look_early(runners, pilots)
            if self._failed:
                return None
        pilots.run(most, PILOT_SHARE * self.seconds if slow else math.inf)
        self.plan = plan_samples(
            pilots,
            alpha=self.alpha,
            detects=self.detects,
            power=self.power,
            samples=self.samples,
            seconds=self._left,
            done=[len(runner.emissions) for runner in runners],
        )
        if self.plan is None:
            return self._too_few_calls(pilots)
        if say is not None:
            say(self.plan.line)
        share = self.alpha / len(runners)
        schedules = [plan_looks(n, alpha=share) for n in self.plan.samples]
        spent = share * EARLY_SHARE if slow else 0.0
        for at in range(max(map(len, schedules))):
            for runner, schedule in zip(runners, schedules, strict=True):
                if at >= len(schedule):
                    continue
                look = schedule[at]
                last = look is schedule[-1]
                alpha = look.alpha - (spent if look is schedule[0] else 0.0)
                if last or look.samples > len(runner.emissions):
                    self._judge(runner, replace(look, alpha=alpha), last=last)
            self.looks += 1
            if self._failed:
                break
        return None

    def _look_early(self, runners: list[TrialRunner], pilots: Pilots) -> None:
        """Judge the first calls of slow code, on the instances that show most, till it fails."""
        alpha = self.alpha / len(runners) * EARLY_SHARE / len(EARLY_LOOKS)
        fine = [runner for runner in runners if not runner.instance.coarse] or runners[:1]
        most = self.clock.seconds() + EARLY_SECONDS_SHARE * self.seconds
        for samples in EARLY_LOOKS:
            trials = whole_batches(samples, self.batch or 1)
            if pilots.trials + trials * len(fine) > self.samples:
                return
            for runner in fine:
                calls = samples - len(runner.emissions)
                ends = self.clock.seconds() + calls * pilots.seconds[runner.number]
                if ends > most and self.looks:
                    return
                self._judge(runner, Look(samples, alpha), last=False)
                self.looks = EARLY_LOOKS.index(samples) + 1
                if self._failed:
                    return

    def _judge(self, runner: TrialRunner, look: Look, *, last: bool) -> None:
        """Run an instance up to a look, and judge it there."""
        trials = whole_batches(look.samples, self.batch or 1)
        runner.run(max(trials, len(runner.emissions)))
        share, number = self.alpha / len(self.instances), runner.number
        spends = LookBudget(share, look.alpha / share, last, self.power)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(number, 2))
        uniforms = np.random.default_rng(seeds).random(len(runner.emissions))
        self.judged[number] = judge_emissions(runner, self.contract, spends, uniforms)

    def _too_few_calls(self, pilots: Pilots) -> str:
        if self.samples < pilots.trials + 4 * len(pilots.runners) * (self.batch or 1):
            return "the budget ends in the pilot: raise max_samples"
        call = math.fsum(pilots.seconds) / len(pilots.seconds)
        return f"a call takes {call:.2g} s, too long for {self.seconds:g} s: raise --seconds"

    def _runners(self, *, pilot: bool) -> list[TrialRunner]:
        return [
            TrialRunner(
                instance.rule or self.rule,
                self.contract,
                instance,
                seed=self.seed,
                number=number,
                pilot=pilot,
                rows=self.batch,
                clock=self.clock,
                seconds=self.seconds,
            )
            for number, instance in enumerate(self.instances)
        ]

    def _result(
        self, runners: list[TrialRunner], reason: str | None, misuse: ContractMisuse | None = None
    ) -> SampledAudit:
        judged = [look for look in self.judged if look is not None]
        findings = findings_of_tests(text for look in judged for text in look.findings)
        if misuse is not None:
            findings.insert(0, make_finding("contract", str(misuse)))
        detect = self.detects[0] if self.plan is None else self._reached(self.plan.detect)
        if reason is None and not findings:
            reason = self._power_shortfall(detect)
        verdict: results.Verdict = "FAIL" if findings else "INCONCLUSIVE" if reason else "PASS"
        named = None
        if judged:
            # The catalogue is asked about all instances together, by slots of single calls. Only
            # code without state has slots that follow the target.
            stateless = self.contract == "verify" or takes_step_arguments(self.rule)
            run = (x for x, look in zip(runners, self.judged, strict=True) if look is not None)
            counts = [counts_by_slot(runner.tables, runner.emissions) for runner in run]
            named = battery.diagnose_faults(counts, diagnose=bool(findings) and stateless)
        places = [
            (instance, battery.locate_fault(replace(look.evidence, named=named)))
            for instance, look in zip(self.instances, self.judged, strict=True)
            if look is not None and look.findings
        ]
        where = next((x for x in places if x[1].part), places[0] if places else None)
        place = None if where is None else self._with_lines(*where)
        bounds = self._certificates(runners) if verdict == "PASS" else []
        fine = [j for x, j in zip(self.instances, self.judged, strict=True) if not x.coarse]
        reached = max((j.detectable if j else math.inf for j in fine), default=math.inf)
        unknown: list[None] = [None] * len(runners)
        tier = results.SampledTier(
            samples=sum(len(runner.emissions) for runner in runners),
            looks=self.looks,
            alpha=self.alpha,
            detect=detect,
            power=self.power,
            tests=tuple(battery.test_document(test) for look in judged for test in look.tests),
            detectable=battery.finite_or_none(reached),
            certificate=max(bounds, key=lambda c: c.bound) if bounds else None,
            faults=battery.faults_document(named),
            localisation=battery.suspect_document(place),
            precision=self._precision(runners) if findings else None,
            optimality="; ".join(look.optimality for look in judged) or None,
            findings=tuple(findings),
            instances=tuple(
                results.SampledModel(
                    name=runner.instance.name,
                    vocab_size=runner.tables.vocab_size,
                    gamma=runner.instance.gamma,
                    samples=len(runner.emissions),
                    detect=instance_detect(runner.instance, detect),
                    detectable=None if look is None else battery.finite_or_none(look.detectable),
                    bound=None if certificate is None else certificate.bound,
                )
                for runner, look, certificate in zip(
                    runners, self.judged, bounds or unknown, strict=True
                )
            ),
        )
        trial = hurried = None
        if misuse is not None:
            why, runner = f"the first that breaks the contract: {misuse}", runners[misuse.number]
            trial = _failing_trial(runner, self.contract, misuse.trial, why, pilot=misuse.pilot)
        elif findings:
            failed = [n for n, look in enumerate(self.judged) if look and look.findings]
            trial = choose_trial(runners, failed, self.contract)
        reason = reason if verdict == "INCONCLUSIVE" else None
        if self.plan is not None and detect > self.detects[0]:
            first, late = self.detects[0], self.plan.detect > self.detects[0]
            why = f"would have taken longer than {self.seconds:g} s" if late else "is not reached"
            more = "--seconds" if late else "--max-samples"
            hurried = (
                f"a TV of {first:g} {why}, so {detect:g} was asked for: raise {more}, or state "
                "--detect"
            )
        return SampledAudit(verdict, tier, self.plan, reason, trial, hurried)

    def _precision(self, runners: list[TrialRunner]) -> str | None:
        """Return the sampler of few digits that the tokens are consistent with."""
        if self.contract != "verify":
            return None
        judged = zip(runners, self.judged, strict=True)
        return precision_words([(x.tables, x.emissions) for x, look in judged if look is not None])

    def _with_lines(
        self, instance: SampledInstance, place: battery.FaultLocation
    ) -> battery.FaultLocation:
        """Return ``place`` with the lines of the code that run in its part of a call alone."""
        traceable = self.batch is None and not hasattr(self.rule, "ask")
        if not traceable or place.part not in ("accept", "residual", "bonus"):
            return place
        lines = lines_of_part(place.part, self.rule, self.contract, instance, self.seed)
        return replace(place, lines=lines)

    def _reached(self, planned: float) -> float:
        """Return the first of the TVs from ``planned`` on that is found; the last if none is."""
        levels = [detect for detect in self.detects if detect >= planned]
        return next((detect for detect in levels if not self._short_of(detect)), levels[-1])

    def _short_of(self, detect: float) -> list[tuple[SampledInstance, float]]:
        """Return the instances where a run for ``detect`` finds too little, and what it finds."""
        each = zip(self.instances, self.judged, strict=True)
        finds = [(x, math.inf if look is None else look.detectable) for x, look in each]
        return [(x, found) for x, found in finds if found > instance_detect(x, detect)]

    def _certificates(self, runners: list[TrialRunner]) -> list[results.Certificate]:
        """Bound the mean one-token TV on each instance; all bounds hold but for the delta."""
        each = CERTIFICATE_DELTA / len(runners)
        slots = (counts_by_position(runner.tables, runner.emissions) for runner in runners)
        bounds = (battery.certify_slots(counts, delta=each) for counts in slots)
        documents = map(battery.certificate_document, bounds)
        return [msgspec.structs.replace(c, delta=CERTIFICATE_DELTA) for c in documents]

    def _power_shortfall(self, detect: float) -> str | None:
        if not (short := self._short_of(detect)):
            return None
        instance, found = short[0]
        wanted = instance_detect(instance, detect)
        promise = f"a TV of {found:.3g}" if found < math.inf else "no TV yet"
        what = f"the calls on {instance.name} promise {promise}, not {wanted:g}"
        plan = self.plan
        if plan is None or plan.needed * SLOWDOWN_ALLOWANCE <= self.seconds:
            return f"{what}: raise max_samples"
        seconds = self.seconds + SLOWDOWN_ALLOWANCE * (plan.needed - plan.seconds)
        return (
            f"{what}; no more calls fit into {self.seconds:g} s: pass --seconds "
            f"{math.ceil(seconds)}, or a larger --detect"
        )
