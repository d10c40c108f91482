"""Edge probes: unusual rows, types, inputs and batches, forced uniforms, state between calls.

Forced uniforms stand in place of every random number that the code draws. They use the exact
tier's twins of numpy's, Python's and torch's generators, with numbers instead of symbols: whatever
the twins can follow can be forced.
"""

import inspect
import itertools
import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy
from msgspec.structs import replace

from simverify.arrays import Row
from simverify.auditing import invocation
from simverify.auditing.drafters import build_drafter, call_drafter
from simverify.auditing.enumeration import accepts_arguments
from simverify.auditing.instances import is_clear_cut
from simverify.auditing.invocation import CallOutcome, GpuLost, ProbeCase, ProbeRecorder, Rule
from simverify.auditing.many_calls import repeated_draws
from simverify.auditing.sandbox import one_torch_thread, preserved_generators, suppress_warnings
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.models.distribution import Law
from simverify.results import Finding, Probe
from simverify.symbolic.compiled import loaded_mlx
from simverify.symbolic.outcomes import Tokens, describe_exception
from simverify.symbolic.patching import intercept_randomness
from simverify.symbolic.paths import Path
from simverify.symbolic.source import RandomSource
from simverify.symbolic.streams import Stream
from simverify.symbolic.watchdog import is_child_process, report_activity
from simverify.trees import ROOT

# The probes on ordinary random numbers.

CALLS_PER_CASE = 48  # calls a case; both ids of a fair first token miss with probability 2^-47
_READ_ONLY_ERRORS = ("destination is read-only", "output array is read-only")


@dataclass(frozen=True)
class SeededCalls:
    """Calls of the code on ordinary, seeded random numbers."""

    call: invocation.Caller
    contract: invocation.Contract

    def run(
        self,
        line: ProbeRecorder,
        case: ProbeCase,
        seed: int,
        drafted: Tokens | None = None,
        **how: bool,
    ) -> CallOutcome:
        """Run it once; drafts are sampled from the draft rows unless given."""
        rng = seeded_generator(seed)
        if drafted is None and self.contract == "verify":
            drafted = tuple(int(rng.choice(len(q), p=q)) for q in case.block()[1])
        return line.call(lambda: self.call(case, rng, drafted, **how))


def check_valid_inputs(
    line: ProbeRecorder, plain: SeededCalls, case: ProbeCase, calls: int = CALLS_PER_CASE
) -> str:
    """Valid inputs: the contract is kept and no token of probability zero comes out."""
    _first_tokens(line, plain, case, calls)
    return f"{calls} calls kept the contract and emitted no token with p = 0"


def _first_tokens(line: ProbeRecorder, plain: SeededCalls, case: ProbeCase, calls: int) -> set[int]:
    first: set[int] = set()
    for seed in range(calls):
        outcome = plain.run(line, case, seed)
        if problem := outcome.fault or outcome.impossible:
            line.add("violation", problem)
        first.update((outcome.tokens or ())[:1])
    return first


def end_tokens(line: ProbeRecorder, plain: SeededCalls, processing: Law | None = None) -> str:
    """All mass of the target on the first and the last id."""
    first = _first_tokens(line, plain, invocation.END_IDS, CALLS_PER_CASE)
    weights = tuple(invocation.END_IDS.targets[0].tolist())
    if processing is not None and not is_clear_cut(processing, weights, (), ()):
        return "one of them may be cut off"
    for token in (0, invocation.END_IDS.vocab_size - 1):
        if first and token not in first:
            never = f"never emitted token {token} first, of p = 1/2: {CALLS_PER_CASE} calls"
            line.add("violation", never)
    return "both are emitted"


def malformed_rows(line: ProbeRecorder, plain: SeededCalls, rows: tuple[ProbeCase, ...]) -> str:
    """Rows that are no distributions: an exception or a valid token.

    A correct inverse CDF may leave the vocabulary: a warning. To end the process is a violation.
    """
    raised = returned = 0
    for case in rows:
        for seed in range(8):
            drafted = (0, 1, 2) if plain.contract == "verify" else None
            outcome = plain.run(line, case, seed, drafted)
            raised += outcome.raised
            returned += outcome.tokens is not None
            if outcome.exits:
                line.add("violation", f"{outcome.fault} ({case.name})")
            elif outcome.fault and not outcome.raised:
                line.add("warning", f"{outcome.fault} ({case.name})")
    outcomes = {
        f"raises in {raised} calls": raised,
        f"emits valid tokens in {returned} calls": returned,
    }
    return " and ".join(words for words, calls in outcomes.items() if calls)


def undraftable_tokens(line: ProbeRecorder, plain: SeededCalls) -> str:
    """Draft tokens that neither model can emit: 0/0 must not accept them."""
    for seed in range(CALLS_PER_CASE):
        outcome = plain.run(line, invocation.UNDRAFTABLE_TOKENS, seed, (2, 0))
        accepts = outcome.impossible and f"{outcome.impossible} and q = 0: 0/0 accepts"
        if problem := accepts or outcome.fault:
            line.add("warning", problem)
    return "0/0 accepts nothing"


def inputs_unmodified(line: ProbeRecorder, plain: SeededCalls) -> str:
    """Inputs are compared byte for byte, then handed over read-only."""
    names: dict[str, None] = {}
    fault = ""
    for case in (invocation.PLAIN_ROWS, invocation.MIXED_ZEROS, invocation.EQUAL_ROWS):
        for seed in range(CALLS_PER_CASE // 2):
            outcome = plain.run(line, case, seed)
            names |= dict.fromkeys(outcome.changed)
            guarded = plain.run(line, case, seed, writable=False)
            if guarded.raised and not outcome.fault:
                fault = fault or guarded.fault
    if names:
        line.add("violation", f"changes its inputs: {', '.join(names)}")
    elif any(text in fault for text in _READ_ONLY_ERRORS):
        line.add("violation", f"changes its inputs, read-only arrays: {fault}")
    elif fault:
        line.add("warning", f"fails on read-only arrays: {fault}")
    return "bytes compared, and read-only arrays accepted"


def output_type(line: ProbeRecorder, plain: SeededCalls) -> str:
    """What comes back is a row of integers, 1 to gamma+1 of them."""
    kinds: dict[str, None] = {}
    for case in (invocation.PLAIN_ROWS, invocation.SINGLE_DRAFT):
        for seed in range(CALLS_PER_CASE):
            outcome = plain.run(line, case, seed)
            if outcome.fault:
                line.add("violation", outcome.fault)
            kinds |= dict.fromkeys([outcome.returned] if outcome.returned else [])
    return f"integers, as {', '.join(kinds)}" if kinds else "integers"


def seeded_generator(seed: int) -> np.random.Generator:
    """Seed the process's generators and return one to hand over."""
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
    if (mlx := loaded_mlx()) is not None:
        mlx.random.seed(seed)
    return np.random.Generator(np.random.PCG64([20253, seed]))


BATCH_COUNT = 24
BATCH_VOCAB, BATCH_GAMMA = 5, 3


def batch_rows(line: ProbeRecorder, rule: Rule, rows: int) -> str:
    """Rows with one-hot targets, one output each, that show if they are swapped or shifted."""
    for seed in range(BATCH_COUNT):
        rng = seeded_generator(seed)
        expected = rng.integers(BATCH_VOCAB, size=(rows, BATCH_GAMMA + 1))
        right = rng.random((rows, BATCH_GAMMA)) < 0.7
        drafted = np.where(right, expected[:, :-1], rng.integers(BATCH_VOCAB))
        target = np.eye(BATCH_VOCAB)[expected]
        draft = np.full((rows, BATCH_GAMMA, BATCH_VOCAB), 1 / BATCH_VOCAB)
        if problem := _batch_problem(line, rule, (target, draft, drafted, rng), expected):
            line.add("violation", problem)
            break
    return f"{BATCH_COUNT} calls of {rows} rows of one possible output each gave each row its own"


def _batch_problem(line: ProbeRecorder, rule: Rule, batch: tuple[Any, ...], expected: Any) -> str:
    try:
        results = list(rule(*batch))
    except Exception as error:
        return f"raised {describe_exception(error)}"
    line.calls += 1
    if len(results) != len(expected):
        return f"returned {len(results)} rows for {len(expected)}"
    for b, row in enumerate(results):
        tokens = [int(x) for x in (row.tolist() if hasattr(row, "tolist") else row)]
        tokens = tokens[: tokens.index(-1)] if -1 in tokens else tokens
        only = expected[b].tolist()
        if not tokens or tokens != only[: len(tokens)]:
            what = f"row {b} of {len(expected)} emitted {tokens}"
            return f"{what} where its target allows only {only}"
    return ""


# Edge probes of drafters. The probes of emitted tokens run too, on the drafter and the rule that
# judges it, except those of the target's rows alone.

DRAFTER_PROBE_SECONDS = 3.0
CALLS_PER_DRAFTER_CASE = 24  # calls a case
_INVALID_ROW_PROBES = ("zero rows", "NaN rows", "p = q = 0 at a draft token")
"""Probes of what the contract rules out: to raise there is no violation."""

_TARGET_ROW_PROBES = {
    *("p = q", "disjoint support", "one-hot targets", "inputs"),
    *_INVALID_ROW_PROBES,
}
"""Probes of rows that a drafter is not handed, or that no draft model has."""

_LARGE_VOCAB = 1000

ProbeBody = Callable[[ProbeRecorder], str]


def probe_drafter(
    rule: Rule, others: Sequence[Probe], lost: Sequence[Probe] = ()
) -> tuple[Probe, ...]:
    """Probe a drafter: ``others``, as far as they say something of one, and its own."""
    probes = [probe for probe in others if probe.name not in _TARGET_ROW_PROBES]
    if any(probe.hung for probe in others):
        return tuple(probes)
    large = np.random.Generator(np.random.PCG64(1000)).standard_exponential(_LARGE_VOCAB)
    rows: dict[str, tuple[Any, int]] = {
        "one-hot draft row": (np.eye(5)[[0, 4]], 1),
        "more siblings than tokens": ([[0.5, 0.5]], 5),
        "more siblings than likely tokens": ([[0.0, 1.0, 0.0, 0.0]], 3),
        "large draft row": ([large / large.sum()], 4),
    }
    bodies: dict[str, ProbeBody] = {
        name: partial(_keeps_contract, rule=rule, rows=np.array(given), k=k)
        for name, (given, k) in rows.items()
    }
    bodies["prefixes"] = partial(_unusual_prefixes, rule=rule)
    bodies["drafts something"] = partial(_drafts_something, rule=rule)
    with suppress_warnings(), preserved_generators():
        for name, body in bodies.items():
            report_activity(f"the probe {name!r}")
            run = partial(invocation.run_probe, name, body, DRAFTER_PROBE_SECONDS)
            probes.append(invocation.gpu_lost_probe(name, probes, lost) or run(ProbeRecorder()))
    return tuple(probes)


def _keeps_contract(line: ProbeRecorder, rule: Rule, rows: Row, k: int) -> str:
    """The contract is kept, and no token comes that is said to be impossible."""
    for row in rows:
        for seed in range(CALLS_PER_DRAFTER_CASE):
            _call_drafter(line, rule, (0, 1), row, k, seed)
    return f"{CALLS_PER_DRAFTER_CASE * len(rows)} calls kept the contract"


def _call_drafter(
    line: ProbeRecorder, rule: Rule, prefix: Tokens, row: Row, k: int, seed: int
) -> Tokens | None:
    """Make one call; None where it broke the contract, which is noted."""

    def call() -> tuple[Tokens, str]:
        rng = seeded_generator(seed)
        return call_drafter(build_drafter(rule), ROOT, prefix, row, k, rng).tokens, ""

    outcome = line.call(lambda: invocation.attempt_call(call))
    if outcome.tokens is None:
        line.add("violation", outcome.fault)
    return outcome.tokens


def _unusual_prefixes(line: ProbeRecorder, rule: Rule) -> str:
    """An empty prefix, a long one, and ids 0 and V-1 at its end."""
    row = np.array([0.5, 0.2, 0.3])
    for prefix in ((), (0,), (2,), (0, 2) * 40):
        for seed in range(CALLS_PER_DRAFTER_CASE // 4):
            _call_drafter(line, rule, prefix, row, 2, seed)
    return "none, one token and 80 were taken"


def _drafts_something(line: ProbeRecorder, rule: Rule) -> str:
    """A drafter that never drafts is right about everything, and no use."""
    row = np.array([0.6, 0.4])
    every = (_call_drafter(line, rule, (), row, 1, seed) for seed in range(CALLS_PER_DRAFTER_CASE))
    counts = [len(tokens) for tokens in every if tokens is not None]
    if counts and not any(counts):
        line.add("warning", f"drafted no token in {len(counts)} calls: nothing was judged")
    return f"a token in {sum(map(bool, counts))} of {len(counts)} calls"


# Probes that need the code's random numbers in hand: edge uniforms, kept state.

UniformEdge = Literal["first", "last"]
"""The first uniform, 0, or the last below 1: 1 - ulp of the type it is drawn in."""

DOUBLE_BITS = 53

# Kept here because the names in numpy.random are replaced while code is intercepted.
_Generator, _PCG64 = np.random.Generator, np.random.PCG64


class ForcedUniforms(RandomSource):
    """Hands out seeded numbers, except that one draw, or every draw, is at an edge.

    ``count`` numbers were drawn since :meth:`start`, at the edge with ``probability``: 2^-bits
    each, by the type drawn (53 bits for float64, 24 for float32, 8 for bfloat16). Discrete draws
    take their first or last outcome, exponentials what these uniforms give, at least one ulp.
    """

    def __init__(self) -> None:
        super().__init__(0.0, seed_once=True)
        self.at_once = True  # nothing waits: every draw is a number
        self.start(0)

    def start(self, seed: int, edge: UniformEdge | None = None, at: int | None = None) -> None:
        """Begin a call; ``at`` is the draw at the edge, None for all of them."""
        self.begin(Path())
        self._rng = _Generator(_PCG64(seed))
        self._edge, self._at = edge, at
        self.count = 0
        self.probability = 1.0

    def draw(self, bits: int = DOUBLE_BITS, zero: float | None = None) -> float:
        """Return the next uniform, a multiple of 2^-bits in [0, 1).

        ``zero``: the probability of exactly 0, where that is not 2^-bits.
        """
        edge = self._edge if self._at in (None, self.count) else None
        self.count += 1
        if edge is None:
            return float(math.floor(self._rng.random() * 2**bits) / 2**bits)
        self.probability *= 2.0**-bits if zero is None or edge != "first" else zero
        return 0.0 if edge == "first" else 1.0 - 2.0**-bits

    def draw_exponential(self, bits: int = DOUBLE_BITS, zero: float | None = None) -> float:
        """Return the next standard exponential; no generator returns 0 or infinity."""
        return -math.log1p(-max(self.draw(bits, zero), 2.0**-bits))

    def uniform(self, stream: Stream | None = None, *address: Any, **place: Any) -> float:
        """Return the next uniform, whatever was seeded."""
        return self.draw()

    def exponential(self, stream: Stream, *address: Any) -> float:
        """Return the next standard exponential, whatever was seeded."""
        return self.draw_exponential()

    def pick(self, weights: Sequence[float], stream: Stream, *address: Any) -> int:
        """Return an outcome of positive weight; no generator draws others."""
        u = self.draw() * math.fsum(weights)
        possible = [i for i, w in enumerate(weights) if w > 0]
        total = 0.0
        for i in possible:
            total += weights[i]
            if u < total:
                return i
        return possible[-1]


@contextmanager
def forced_generator(code: Any) -> Iterator[tuple[ForcedUniforms, Callable[[], Any]]]:
    """Yield the source and the generator's class; the code must have run before, and imported."""
    source = ForcedUniforms()
    with ExitStack() as stack:
        patched = intercept_randomness(source, code, shadow_float=False, plain=True)
        twin = stack.enter_context(patched)
        if "torch" in sys.modules:
            from simverify.auditing.forced_torch import ForcedTorchMode

            stack.enter_context(ForcedTorchMode(source.draw, source.draw_exponential))
        for owner, name in ((os, "urandom"), (random, "_urandom")):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, lambda n: bytes(int(256 * source.draw()) for _ in range(n)))

        class Generator(twin):  # type: ignore[misc, valid-type]
            """The twin, minding the type asked for: 1 - 2^-53 is no float32."""

            def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
                """Uniform on [0, 1)."""
                single = np.dtype(dtype) == np.float32
                bits = 24 if single else DOUBLE_BITS
                if size is None and out is None:
                    return source.draw(bits)
                of_type = np.float32 if single else np.float64
                values = np.empty(size, dtype=of_type) if out is None else out
                values.flat[:] = [source.draw(bits) for _ in range(values.size)]
                return values

        yield source, Generator


MAX_EDGE_PROBABILITY = 1e-6
"""An event of more probability a draw is no edge: what it shows is a violation."""

MAX_FORCED_DRAWS = 24
EDGE_SEEDS = range(3)
STATE_ROUNDS = 32
STATE_DIFFERENCES = 24
"""Differences in as many rounds of ``STATE_ROUNDS``, and none in as many controls: C(32, 24) /
C(64, 24) = 4e-11 for untracked randomness, which does not know what was called before."""

STATE_LAW_CALLS = 300  # before a call on other inputs, and after it
STATE_LAW_MIN_COUNT = 10  # rarer outcomes are counted together
STATE_LAW_ALPHA = 1e-9  # the p-value under which the two laws differ


@dataclass(frozen=True)
class ForcedCalls:
    """Calls of the code on numbers of ours."""

    call: invocation.Caller
    contract: invocation.Contract
    source: ForcedUniforms
    generator: Callable[[], Any]

    def run(
        self,
        line: ProbeRecorder,
        case: ProbeCase,
        drafted: Tokens,
        seed: int,
        edge: UniformEdge | None = None,
        at: int | None = None,
    ) -> CallOutcome:
        """Run it once; raises ``CannotEnumerate`` where a draw cannot be forced."""
        self.source.start(seed, edge, at)
        rng = self.generator()
        if isinstance(self.call, invocation.StepCaller):
            self.call.rebuild()  # what an object drew when it was built is forced too
        outcome = line.call(lambda: self.call(case, rng, drafted))
        if self.source.failure is not None:
            raise self.source.failure  # the code may have swallowed it
        return outcome

    @property
    def grade(self) -> Literal["warning", "violation"]:
        """What a fault of the last call is: a warning, if it takes draws that hardly ever come."""
        return "violation" if self.source.probability > MAX_EDGE_PROBABILITY else "warning"


def edge_uniforms(line: ProbeRecorder, forced: ForcedCalls, edge: UniformEdge) -> str:
    """One draw at the edge at a time, then all of them; the rest are seeded."""
    drawn = sound = False
    for case, drafted in _edge_blocks(forced.contract):
        for seed in EDGE_SEEDS:
            plain = forced.run(line, case, drafted, seed)
            count = forced.source.count
            drawn |= count > 0
            if plain.fault or plain.impossible:
                continue  # not the edge's doing; other probes say it
            sound = True
            for at in (*range(0, count, max(1, -(-count // MAX_FORCED_DRAWS))), None):
                try:
                    outcome = forced.run(line, case, drafted, seed, edge, at)
                except GpuLost as lost:
                    raise GpuLost(f"{lost.text} ({case.name})", grade=forced.grade) from None
                if problem := outcome.fault or outcome.impossible:
                    words = f"{problem} ({case.name})"
                    if forced.grade == "violation" and at is not None:
                        words += f", once in {1 / forced.source.probability:,.0f} such draws"
                    line.add(forced.grade, words)
    if not sound:
        line.add("not run", "the code breaks its contract on ordinary numbers too")
    elif not drawn:
        line.add("not run", "no draw of the code could be forced: it makes none that is known")
    return "every draw in turn, and all at once"


def _edge_blocks(contract: invocation.Contract) -> Iterator[tuple[ProbeCase, Tokens]]:
    for case in (invocation.MIXED_ZEROS, invocation.EQUAL_ROWS, invocation.SHORT_SUM):
        if contract == "step":
            yield case, ()
            continue
        supports = [np.flatnonzero(row > 0).tolist() for row in case.block()[1]]
        if case is invocation.MIXED_ZEROS:
            yield from ((case, drafted) for drafted in itertools.product(*supports))
        else:
            yield from ((case, tuple(support[at] for support in supports)) for at in (0, -1))


def repeated_calls(line: ProbeRecorder, forced: ForcedCalls) -> str:
    """Same inputs and same draws before and after a call on something else."""

    def one(seed: int) -> CallOutcome:
        return forced.run(line, invocation.PLAIN_ROWS, (0, 1, 2), seed)

    def another(seed: int) -> None:
        forced.run(line, invocation.INTERLEAVED_CALL, (4, 1), seed + 1)

    shift = restless = None
    drawn = sound = False
    for seed in range(16):
        one(seed)
        before, again = one(seed), one(seed)
        drawn |= forced.source.count > 0
        sound |= before.tokens is not None
        another(seed)
        after = one(seed)
        if again != before:
            restless = seed, before, again
        elif after != before and shift is None:
            shift = seed, before, after
    if not sound:
        line.add("not run", "the code breaks its contract on ordinary numbers too")
    elif shift is not None and _depends_on_history(one, another, shift[0]):
        first, second = map(_describe_outcome, shift[1:])
        problem = (
            f"depends on earlier calls: the same inputs and draws gave {first}, and {second} after "
            "a call on other inputs"
        )
        # Draws that one call leaves to the next, as random.gauss does, change no law.
        line.add("warning", f"{problem}; its distribution stays the same")
        if _law_depends_on_history(one, another):
            line.add("violation", problem)
    elif not drawn and (shift or restless):
        line.add("not run", "no draw of the code could be forced: it draws from elsewhere")
    elif twice := (restless or shift):
        first, second = map(_describe_outcome, twice[1:])
        line.add(
            "warning",
            f"the same inputs and draws gave {first} and then {second}: it keeps state between "
            "calls, or draws from a source that is not known",
        )
    return "the same inputs and draws gave the same tokens"


def _depends_on_history(
    one: Callable[[int], CallOutcome], another: Callable[[int], None], seed: int
) -> bool:
    """Tell state from untracked randomness."""
    differences = 0
    for _ in range(STATE_ROUNDS):
        one(seed)
        before = one(seed)
        if one(seed) != before:
            return False
        another(seed)
        differences += one(seed) != before
    return differences >= STATE_DIFFERENCES


def _law_depends_on_history(
    one: Callable[[int], CallOutcome], another: Callable[[int], None]
) -> bool:
    """Whether a call on other inputs changes the law of the next: a chi-square test."""
    counts: dict[tuple[Tokens | None, str], list[int]] = {}
    for after in (0, 1):
        for seed in range(1_000, 1_000 + STATE_LAW_CALLS):
            if after:
                another(3 * STATE_LAW_CALLS + seed)
            outcome = one(seed + after * STATE_LAW_CALLS)
            counts.setdefault((outcome.tokens, outcome.fault), [0, 0])[after] += 1
    pairs = np.array(list(counts.values()))
    many = pairs.sum(axis=1) >= STATE_LAW_MIN_COUNT
    table = np.vstack([pairs[many], pairs[~many].sum(axis=0)])
    table = table[table.any(axis=1)]
    if len(table) < 2:
        return False
    # As scipy.stats.chi2_contingency does, which must not be imported while the twins stand in.
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    off = np.abs(table - expected)
    if len(table) == 2:  # Yates
        off -= np.minimum(0.5, off)
    statistic = float((off**2 / expected).sum())
    return bool(scipy.special.chdtrc(len(table) - 1, statistic) < STATE_LAW_ALPHA)


def _describe_outcome(outcome: Any) -> str:
    return outcome.fault if outcome.tokens is None else str(list(outcome.tokens))


# All edge probes of a subject: they run before every tier of an audit.

PROBE_SECONDS = 3.0

WARM_UP_FACTOR = 3.0  # the first call may compile and import: as many times the seconds of a probe
HANG_PRONE_PROBES = ("zero rows", "NaN rows", "u = 0", "u = 1 - ulp")
"""On invalid rows, or draws that stay at the edge, a correct rejection loop may wait for ever."""

_HANG_SECONDS_SHARE = 1 / 3  # part of a probe's seconds for these: to wait longer would say no more
_SKIPPED_ON_GPU = (*_INVALID_ROW_PROBES, "u = 0", "u = 1 - ulp")
"""Probes that are not made with a GPU that others need: right code may end its use by them."""


def run_probes(
    rule: Rule,
    contract: invocation.Contract,
    *,
    seconds: float = PROBE_SECONDS,
    eos: int | None = None,
    batched: Rule | None = None,
    rows: int | None = None,
    lost: Sequence[Probe] = (),
    processing: Law | None = None,
) -> tuple[Probe, ...]:
    """Probe ``rule`` at the edges of its contract; one result per probe, always in the same order.

    A violation is a broken contract, or an event of probability above 1e-6 a draw; a warning is an
    event at u = 0, at u = 1 - ulp, or on inputs that the contract rules out. ``rule``: a ``verify``
    function, or a ``step`` function, class or factory. ``eos`` ends a generation of a step rule.
    ``batched``, ``rows``: the code with its batch axis, of which ``rule`` is one row, and the rows
    of a call. ``seconds``: limit of each probe, of processor time, or of the wall clock where the
    code waits; a third where a wait is no violation. A call that takes over half of it is a hang, a
    violation, unless the calls that returned are slow too; after a hang nothing more is run.
    ``lost``: what is known of probes that ended the use of the GPU in another process, or never
    ended there; after a violation among them nothing more is run. ``processing``: what the code
    does to the target's rows. Raises ``ValueError`` if ``seconds`` is not positive or the step rule
    cannot be built anew, and ``GpuLost`` if a probe ended this process's use of the GPU; probes in
    which right code may do so run in a child alone.
    """
    if contract not in ("verify", "step"):
        raise ValueError(f"contract {contract!r}: pass 'verify' or 'step'")
    if not seconds > 0:
        raise ValueError(f"seconds={seconds}: pass a positive number")
    call = invocation.make_caller(rule, contract, eos)
    honest = SeededCalls(call, contract)
    lines: list[Probe] = []
    hung, took, spent = "", 0.0, 0.0

    def run(name: str, body: ProbeBody, limit: float = seconds) -> None:
        nonlocal hung, took, spent
        of_gpu = name in _SKIPPED_ON_GPU and invocation.is_gpu_in_use() and not is_child_process()
        why = (
            f"the code hangs, see {hung!r}" if hung else "it may end this process's use of the GPU"
        )
        known = None if hung else invocation.gpu_lost_probe(name, lines, lost)
        if hung or known is not None or of_gpu:
            lines.append(known or Probe(name=name, outcome="not run", message=why))
            return
        report_activity(f"the probe {name!r}")
        if name in HANG_PRONE_PROBES:
            limit *= _HANG_SECONDS_SHARE
        line = ProbeRecorder(took, spent)
        try:
            result = invocation.run_probe(name, body, limit, line)
        except GpuLost as error:
            grade = error.grade or ("warning" if name in _INVALID_ROW_PROBES else "violation")
            raise GpuLost(error.text, name, grade) from None
        took, spent = line.took, line.seconds
        if result.hung and name in HANG_PRONE_PROBES:
            result = Probe(name=name, outcome="warning", message=result.message)
        lines.append(result)
        hung = name if result.hung else ""

    with suppress_warnings(), preserved_generators(), one_torch_thread():
        run("output", partial(output_type, plain=honest), WARM_UP_FACTOR * seconds)
        with one_torch_thread():  # the code may have imported it only now
            for name, body in _seeded_probes(honest, processing).items():
                run(name, body)
            run(
                "many calls",
                lambda line: repeated_draws(
                    line, rule, contract, seeded_generator(1_000), eos, processing
                ),
            )
            # The twins stand in only from here on: an import under them would draw from us.
            with forced_generator(rule) as (source, generator):
                forced = ForcedCalls(call, contract, source, generator)
                run("u = 0", partial(edge_uniforms, forced=forced, edge="first"))
                run("u = 1 - ulp", partial(edge_uniforms, forced=forced, edge="last"))
                run("repeated calls", partial(repeated_calls, forced=forced))
            if batched is not None and rows is not None:
                run("batch rows", partial(batch_rows, rule=batched, rows=rows))
    return tuple(lines)


def exercise_rule(rule: Rule, contract: invocation.Contract) -> None:
    """Call ``rule`` on a few cases of different sizes; how the calls end is ignored."""
    honest, line = SeededCalls(invocation.make_caller(rule, contract), contract), ProbeRecorder()
    single, disjoint = invocation.SINGLE_DRAFT, invocation.DISJOINT_SUPPORT
    plain, equal = invocation.PLAIN_ROWS, invocation.EQUAL_ROWS
    with suppress_warnings(), preserved_generators():
        for case in (plain, single, equal, disjoint, invocation.large_case()):
            for seed in range(4):
                honest.run(line, case, seed)


def _seeded_probes(honest: SeededCalls, processing: Law | None) -> dict[str, ProbeBody]:
    def needs_verify(body: ProbeBody, why: str) -> ProbeBody:
        def skip(line: ProbeRecorder) -> str:
            line.add("not run", why)
            return ""

        return body if honest.contract == "verify" else skip

    on = partial(partial, check_valid_inputs, plain=honest)
    malformed = partial(partial, malformed_rows, plain=honest)
    return {
        "gamma = 1": on(case=invocation.SINGLE_DRAFT),
        "large vocabulary": on(case=invocation.large_case(), calls=12),
        "ids 0 and V-1": partial(end_tokens, plain=honest, processing=processing),
        "p = q": on(case=invocation.EQUAL_ROWS),
        "disjoint support": on(case=invocation.DISJOINT_SUPPORT),
        "one-hot drafts": on(case=invocation.ONE_HOT_DRAFT),
        "one-hot targets": on(case=invocation.ONE_HOT_TARGET),
        "p = q = 0 at a draft token": needs_verify(
            partial(undraftable_tokens, plain=honest), "the rule drafts its own tokens"
        ),
        "zero rows": malformed(rows=invocation.ZERO_ROWS),
        "NaN rows": malformed(rows=invocation.NAN_ROWS),
        "inputs": needs_verify(
            partial(inputs_unmodified, plain=honest),
            "rows are handed out fresh and the prefix is a tuple",
        ),
    }


def run_subject_probes(
    whole: Subject,
    subject: Subject,
    contract: invocation.Contract,
    settings: AuditSettings,
    drafter: Rule | None = None,
) -> tuple[Probe, ...]:
    """Probe ``subject``, one row of ``whole`` if that is batched; it calls ``drafter`` if given.

    Raises ``UsageError`` if the code cannot be called under the contract at all.
    """
    if subject.coin_bits is not None:
        message = "the code takes its coins as arguments: no random source to force"
        return (Probe(name="edges", outcome="not run", message=message),)
    if contract == "verify":
        _check_signature(subject)
    fatal = ("violation", "warning") if settings.strict_probes else ("violation",)
    try:
        probes = run_probes(
            subject.rule,
            contract,
            eos=settings.eos,
            batched=whole.rule if settings.batch else None,
            rows=settings.batch,
            lost=settings.lost,
            processing=settings.processing,
        )
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None
    if drafter is not None:
        probes = probe_drafter(drafter, probes, settings.lost)
    return tuple(replace(probe, failed=probe.outcome in fatal) for probe in probes)


def probe_findings(probes: Sequence[Probe]) -> list[Finding]:
    """What the probes that failed the audit found."""
    return [
        invocation.make_finding("probe", f"probe {probe.name}: {probe.message}")
        for probe in probes
        if probe.failed
    ]


def _check_signature(subject: Subject) -> None:
    """Refuse code that cannot take the four arguments of ``verify``."""
    try:
        signature = inspect.signature(subject.rule)
    except (TypeError, ValueError):
        return
    if accepts_arguments(signature, 4):
        return
    hint = ""
    if accepts_arguments(signature, 5):
        contract = "tree" if "parents" in signature.parameters else "step"
        hint = f"; it looks like a {contract} rule: --contract {contract}"
    raise UsageError(
        f"{subject.name}{signature} cannot be called as verify(target_probs, draft_probs, "
        f"draft_tokens, rng){hint}"
    )
