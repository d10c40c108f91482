"""Hundreds of calls of one object in a row, and whether they depend on each other.

Each token may be right by itself while its draws are used again: a ring of uniforms, a pool that
is filled from one state, a generator that is put back, noise that is cached. So the calls get the
same rows each time, and of a right rule the tokens are then independent, with a law that is known.
Calls less than :data:`FIRST_LAG` apart are the exact tier's.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from simverify.auditing.coverage import current_monitor
from simverify.auditing.enumeration import cut_at_eos, takes_step_arguments
from simverify.auditing.instances import reads_context
from simverify.auditing.invocation import (
    Contract,
    GpuLost,
    ProbeCase,
    ProbeRecorder,
    Rule,
    attempt_call,
    build_step_rule,
    call_step,
    make_caller,
    make_case,
)
from simverify.models.distribution import Law
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.watchdog import Stopwatch

USUAL_CALLS, MAX_CALLS = 288, 2_048
FAST_SECONDS = 0.1
"""The most that the usual calls take of code that gets the many."""

SECONDS = 1.5
"""Code that takes 5 ms a call makes the usual calls."""
MIN_CALLS = 64
"""Fewer say nothing."""

FIRST_LAG = 4
MIN_PAIRS = 48
ALPHA = 1e-9
"""Probability that any test of the probe fails a right rule."""

_VOCAB, _COMMON = 16, 8
_TARGET_SHARE, _DRAFT_SHARE = 0.45, 0.9
"""Mass of the first 8 tokens. The draft has twice the target's: half of what it proposes there is
accepted, so that the accept draw alone decides between the first 8 tokens and the others."""

_CERTAIN_SHARE = 0.3
"""The target's probability of the one token that the draft emits there."""

GENERATIONS, OBJECTS, GENERATION_LENGTH = 12, 6, 24

TokenRow = npt.NDArray[np.int64]
StepRule = tuple[Rule, Callable[[], Any] | None]


def dependence_case(eos: int | None = None) -> ProbeCase:
    """Rows that are the same at each position, on which every draw shows; none emits ``eos``."""
    rows = []
    for share in (_TARGET_SHARE, _DRAFT_SHARE):
        row = np.repeat([share, 1 - share], _COMMON)
        if eos is not None and eos < _VOCAB:
            row[eos] = 0.0
        rows.append(row.tolist())
    return make_case("one row", 1, (rows[0], rows[1]))


def certain_draft_case(eos: int | None = None) -> ProbeCase:
    """Rows whose draft is certain: what comes out follows from the code's own draws alone.

    So if a call draws now more, now less from a ring, its output repeats nevertheless.
    """
    target = np.repeat([_CERTAIN_SHARE, (1 - _CERTAIN_SHARE) / (_VOCAB - 1)], [1, _VOCAB - 1])
    token = 1 if eos == 0 else 0
    target[[0, token]] = target[[token, 0]]
    if eos is not None and eos < _VOCAB:
        target[eos] = 0.0
    return make_case("certain draft", 1, (target.tolist(), np.eye(_VOCAB)[token].tolist()))


def repeated_draws(
    line: ProbeRecorder,
    rule: Rule,
    contract: Contract,
    rng: Any,
    eos: int | None = None,
    processing: Law | None = None,
) -> str:
    """Make the calls with ``rng``; a dependence between them is a violation.

    A warning where objects of a step rule begin with the same draws, each being right by itself.
    ``processing``: what the code does to the target's rows.
    """
    if processing is not None and reads_context(processing):
        line.add("not run", "penalties make tokens depend on earlier ones")
        return ""
    calls = ManyCalls(line, rule, dependence_case(eos), rng, eos, processing is None)
    watch = current_monitor()
    counted = watch is not None and watch.counts
    if watch is not None:
        watch.counts = False  # long prefixes are not judged
    try:
        problem = calls.verify() if contract == "verify" else calls.step()
    finally:
        if watch is not None and counted:
            watch.counts = True
            # Not how many a fast machine made.
            watch.row = max(watch.row, min(calls.made, USUAL_CALLS))
    if problem:
        line.add("violation", problem)
    elif calls.made < MIN_CALLS:
        line.add(
            "not run", calls.stopped or f"{calls.made} calls in the time allowed: the code is slow"
        )
    count = f"{USUAL_CALLS} or more" if calls.made >= USUAL_CALLS else f"{calls.made}"
    return f"{count} calls of one object in a row: none depends on one before"


@dataclass
class ManyCalls:
    """The calls, and what their tokens show. ``made``: how many calls of one object in a row.

    ``known``: a right rule's tokens follow the target's row, and not that row processed.
    """

    line: ProbeRecorder
    rule: Rule
    case: ProbeCase
    rng: Any
    eos: int | None
    known: bool
    made: int = 0
    stopped: str = ""
    watch: Stopwatch = field(default_factory=partial(Stopwatch, sleeps=True))

    def verify(self) -> str:
        """Call a ``verify`` rule; return what its first tokens show."""
        call = make_caller(self.rule, "verify")
        drafts = np.random.Generator(np.random.PCG64(20254))
        row = self.case.drafts[0]
        outputs = []
        while self._goes_on():
            drafted = (int(drafts.choice(len(row), p=row)),)
            outcome = self.line.timed(partial(call, self.case, self.rng, drafted))
            if outcome.tokens is None:
                self.stopped = outcome.fault
                break
            outputs.append(outcome.tokens)
            self.made += 1
        return self._dependence(outputs, "calls")

    def step(self) -> str:
        """Run generations of a step rule by one object, then by several; return what they show."""
        built = self._build()
        if built is None:
            return ""
        outputs: list[Tokens] = []
        for tokens in self._generation(built):
            outputs.append(tokens)
            self.made += 1
            if not self._goes_on():
                break
        emitted = [(token,) for tokens in outputs for token in tokens]
        if problem := self._dependence(outputs, "calls") or self._dependence(emitted, "tokens"):
            return problem
        if self.known and self.made >= USUAL_CALLS:
            case = certain_draft_case(self.eos)
            certain = itertools.islice(self._generation(built, case), USUAL_CALLS)
            drafted = [token for each in certain for token in each]
            if count := repeated_window(drafted, float(case.targets.max()), ALPHA / 4):
                return f"draws are used again: {count} tokens in a row come again"
        again = self._beginnings(built for _ in range(GENERATIONS))
        if found := self._repetition(again):
            return f"generations of one object repeat each other: {found}"
        if not takes_step_arguments(self.rule):
            each = self._beginnings(self._build() for _ in range(OBJECTS))
            if found := self._repetition(each):
                one_seed = "all objects start from one seed: one object is right, two repeat draws"
                self.line.add("warning", f"{one_seed} ({found})")
        return ""

    def _goes_on(self) -> bool:
        if self.made in (USUAL_CALLS, MAX_CALLS):
            return self.made < MAX_CALLS and self.watch.seconds() < FAST_SECONDS
        return self.watch.seconds() < SECONDS

    def _build(self) -> StepRule | None:
        """Build the rule anew; None if that raises."""
        built: list[StepRule] = []
        self._set_up("building the rule", lambda: built.append(build_step_rule(self.rule)))
        return built[0] if built else None

    def _set_up(self, what: str, run: Callable[[], Any]) -> bool:
        """Run code that emits nothing; False if it raises, of which other probes warn."""

        def call() -> tuple[Tokens, str]:
            run()
            return (), ""

        outcome = attempt_call(call)
        if outcome.lost:
            raise GpuLost(outcome.fault)
        if outcome.tokens is None:
            self.stopped = f"{what} {outcome.fault}"
        return outcome.tokens is not None

    def _generation(self, built: StepRule, case: ProbeCase | None = None) -> Iterator[Tokens]:
        """Yield what each call of a generation emits, until ``eos`` or until one breaks."""
        rows = case or self.case
        step, reset = built
        if reset is not None and not self._set_up("reset()", reset):
            return
        emitted: Tokens = ()

        def call() -> tuple[Tokens, str]:
            return cut_at_eos(call_step(step, rows, emitted, self.rng), self.eos), ""

        for number in itertools.count(1):
            outcome = self.line.timed(partial(attempt_call, call))
            if outcome.tokens is None:
                self.stopped = outcome.fault
                if emitted:
                    place = f"in call {number} of a generation, after {len(emitted)} tokens"
                    self.line.add("warning", f"{outcome.fault} ({place})")
                return
            emitted += outcome.tokens
            yield outcome.tokens
            if emitted[-1] == self.eos:
                return

    def _beginnings(self, objects: Iterable[StepRule | None]) -> list[Tokens]:
        """Return the first tokens of a generation by each object; none if one breaks."""
        found = []
        for built in objects:
            emitted: Tokens = ()
            for tokens in self._generation(built) if built else ():
                emitted += tokens
                if len(emitted) >= GENERATION_LENGTH:
                    break
            if len(emitted) < GENERATION_LENGTH:
                return []
            found.append(emitted[:GENERATION_LENGTH])
        return found

    def _repetition(self, beginnings: list[Tokens]) -> str:
        """Return what shows that generations share draws at the same places; "" if nothing does."""
        if len(beginnings) * GENERATION_LENGTH < GENERATION_LENGTH + MIN_PAIRS:
            return ""
        tokens = np.array(beginnings, dtype=np.int64).ravel()
        lags = range(GENERATION_LENGTH, len(tokens) - MIN_PAIRS, GENERATION_LENGTH)
        likely = _likeliest_share(tokens, self.case, known=self.known)
        if found := equal_at_lag(tokens, likely, lags, ALPHA / 8, len(tokens)):
            _, equal, pairs = found
            return f"the same token at the same place in {equal:,} of {pairs:,} pairs"
        if self.known and (correlated := correlated_at_lag(tokens, self.case, lags, ALPHA / 8)):
            return f"correlation of tokens at the same place {correlated[1]:.2f}"
        return ""

    def _dependence(self, outputs: Sequence[Tokens], what: str) -> str:
        """Return what shows that outputs depend on earlier ones; "" if nothing does."""
        if len(outputs) < MIN_CALLS:
            return ""
        firsts = np.array([tokens[0] for tokens in outputs])
        sizes = np.array([len(tokens) for tokens in outputs])
        parts = {what: firsts}
        if 0 < (sizes == 1).sum() < len(sizes):
            # A ring that only rejected calls draw from keeps step with these alone.
            parts |= {"rejections": firsts[sizes == 1], "acceptances": firsts[sizes > 1]}
        alpha = ALPHA / (8 * len(parts))
        likely = _likeliest_share(firsts, self.case, known=self.known)
        for title, tokens in parts.items():
            lags = range(FIRST_LAG, len(tokens) - MIN_PAIRS)
            if lags and (found := equal_at_lag(tokens, likely, lags, alpha, len(firsts))):
                lag, equal, pairs = found
                return (
                    f"draws are used again: {title} {lag:,} apart begin with the same token "
                    f"in {equal:,} of {pairs:,} pairs"
                )
        lags = range(FIRST_LAG, len(firsts) - MIN_PAIRS)
        if self.known and lags and (found_lag := correlated_at_lag(firsts, self.case, lags, alpha)):
            lag, correlation = found_lag
            return (
                f"draws are used again: {what} {lag:,} apart have first tokens of correlation "
                f"{correlation:.2f}"
            )
        return ""


# The tests: exact at any number of pairs.


def _likeliest_share(tokens: TokenRow, case: ProbeCase, *, known: bool) -> float:
    """Return a bound on the probability of the likeliest token of a right rule.

    ``known``: the tokens follow the target's row; else Hoeffding's inequality bounds it. Where a
    law is wrong, equal tokens are no dependence.
    """
    share = float(np.bincount(tokens).max()) / max(1, len(tokens))
    if known:
        return max(share, float(case.targets.max()))
    return min(1.0, share + math.sqrt(math.log(16 * _VOCAB / ALPHA) / (2 * len(tokens))))


def equal_at_lag(
    tokens: TokenRow, likely: float, lags: range, alpha: float, calls: int
) -> tuple[int, int, int] | None:
    """Return a lag at which tokens are equal too often, how often they are, and of how many pairs.

    ``tokens`` are the first ones of some of the ``calls``. Whatever came before, the token of any
    call equals a given earlier one with at most the probability ``likely``. So the number of equals
    is at most binomial, with a trial for each call after the first ``lag``: which calls count may
    depend on their own tokens, and on the state of the rule.
    """
    equal = np.array([int((tokens[lag:] == tokens[:-lag]).sum()) for lag in lags])
    pairs = len(tokens) - np.array(lags)
    trials, least = calls - np.array(lags), alpha / len(lags)
    # A tail is at least its term at the count, or at the mean where that is more. This settles
    # all but strange counts, and scipy's functions take a quarter of a second to import.
    at = np.maximum(equal, np.floor(trials * likely))
    if all(_log_binomial(n, k, likely) > math.log(least) for n, k in zip(trials, at, strict=True)):
        return None
    chance = scipy.special.bdtrc(equal - 1, trials, likely)
    best = int(chance.argmin())
    if chance[best] > least:
        return None
    return lags[best], int(equal[best]), int(pairs[best])


def _log_binomial(trials: float, successes: float, p: float) -> float:
    """Return the log of the binomial probability; -inf where it is 0."""
    failures = trials - successes
    if failures < 0 or p in (0.0, 1.0):
        return -math.inf
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return ways + successes * math.log(p) + failures * math.log1p(-p)


def correlated_at_lag(
    tokens: TokenRow, case: ProbeCase, lags: range, alpha: float
) -> tuple[int, float] | None:
    """Return a lag at which tokens depend on each other, and their correlation.

    Whether a token is one of the first 8, and whether it is in the lower half of its 8, has a known
    probability. So, whatever came before, the product of two deviations at a lag has mean 0, and
    its range is at most the larger probability of the first (Azuma's inequality).
    """
    ids = np.arange(case.vocab_size)
    events = ids < _COMMON, ids % _COMMON < _COMMON // 2
    pairs = len(tokens) - np.array(lags)
    best = 0.0, 0, 0.0
    for early, late in itertools.product(events, repeat=2):
        one, other = float(case.targets[0, early].sum()), float(case.targets[0, late].sum())
        given = early[tokens] - one, late[tokens] - other
        # By their own means too: where a law is wrong, that is no dependence.
        centred = [x - x.mean() for x in given]
        sums = np.array(
            [[y[lag:] @ x[:-lag] for lag in lags] for x, y in (given, centred)], dtype=np.float64
        )
        least = np.where(sums[0] * sums[1] > 0, np.abs(sums).min(axis=0), 0.0)
        exponents = 2 * least**2 / (pairs * max(one, 1 - one) ** 2)
        at = int(exponents.argmax())
        spread = math.sqrt(one * (1 - one) * other * (1 - other))
        best = max(best, (float(exponents[at]), at, float(sums[1, at] / pairs[at]) / spread))
    exponent, at, correlation = best
    return (lags[at], correlation) if exponent > math.log(8 * len(lags) / alpha) else None


def repeated_window(tokens: Sequence[int], likely: float, alpha: float) -> int:
    """Return the length of a run of tokens that comes twice, 0 if none so long does.

    Two runs of independent tokens are equal with probability ``likely ** length`` at most, where
    they overlap too, and there are fewer than n^2 / 2 pairs of them.
    """
    pairs = len(tokens) ** 2 / 2
    length = math.ceil(math.log(max(1.0, pairs) / alpha) / -math.log(likely))
    starts = range(len(tokens) - length + 1)
    return 0 if len({tuple(tokens[i : i + length]) for i in starts}) == len(starts) else length
