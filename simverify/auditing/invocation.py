"""One call of code under audit, and whether it kept its contract, without a traceback of ours.

A probe makes a few calls and ends as one line: how bad, in one sentence, within its time.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from simverify.arrays import Row
from simverify.auditing.coverage import call_monitored
from simverify.auditing.enumeration import (
    check_token_ids,
    decode_generation,
    monitored_reset,
    read_tokens,
    takes_step_arguments,
)
from simverify.errors import SimverifyError
from simverify.results import Finding, Probe
from simverify.symbolic.engine import MIN_HANG_FACTOR
from simverify.symbolic.outcomes import InvalidTokens, Tokens, describe_exception
from simverify.symbolic.provenance import CannotEnumerate, parse_raise_site
from simverify.symbolic.source import PathCut
from simverify.symbolic.watchdog import (
    DeadlineExpired,
    Stopwatch,
    deadline,
    is_user_interrupt,
    monotonic_now,
)

# The rows of edge probes: by position, cycled, the same under both contracts.


@dataclass(frozen=True, eq=False)
class ProbeCase:
    """A target and a draft whose row depends on the position alone.

    ``targets`` and ``drafts`` are float64 (n, V), row i for positions i, i + n, ...; rows sum
    to 1 unless the case is about rows that do not.
    """

    name: str
    gamma: int
    targets: Row
    drafts: Row

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.targets.shape[1])

    def target(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the target after ``prefix``."""
        return np.array(self.targets[len(prefix) % len(self.targets)])

    def draft(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the draft after ``prefix``."""
        return np.array(self.drafts[len(prefix) % len(self.drafts)])

    def block(self) -> tuple[Row, Row]:
        """Fresh target rows (gamma+1, V) and draft rows (gamma, V) of one call."""
        places = np.arange(self.gamma + 1) % len(self.targets)
        return self.targets[places], self.drafts[places[:-1]]


def make_case(name: str, gamma: int, *pairs: tuple[Sequence[float], Sequence[float]]) -> ProbeCase:
    """Case from pairs (target weights, draft weights), normalised; all-zero rows stay zero."""
    targets, drafts = (np.array([pair[i] for pair in pairs], dtype=np.float64) for i in (0, 1))
    for rows in (targets, drafts):
        total = rows.sum(axis=1, keepdims=True)
        rows /= np.where(total == 0, 1.0, total)
    return ProbeCase(name, gamma, targets, drafts)


MIXED_ZEROS = make_case(
    "zeros on either side",
    2,
    ([0, 2, 2, 0], [2, 1, 0, 1]),
    ([0, 1, 3, 0], [1, 2, 0, 1]),
    ([0, 1, 1, 0], [1, 1, 1, 1]),
)
"""A residual and a bonus with no mass at either end of the vocabulary; p = 0 < q at both."""

PLAIN_ROWS = make_case(
    "plain", 3, ([5, 1, 6], [6, 2, 4]), ([6, 3, 3], [5, 6, 1]), ([4, 2, 6], [2, 9, 1])
)

INTERLEAVED_CALL = make_case(
    "another call", 2, ([1, 4, 2, 1, 0], [3, 1, 0, 1, 2]), ([1, 0, 2, 0, 3], [1] * 5)
)
"""A call in between, with another vocabulary and another gamma."""

# The running float64 sum of 33 equal parts ends at 1 - 6 * 2^-53: an unguarded CDF runs out.
SHORT_SUM = make_case("a sum below 1", 1, ([1] * 33, [1] * 33))

EQUAL_ROWS = make_case(
    "p = q", 3, ([1, 2, 4], [1, 2, 4]), ([5, 2, 0], [5, 2, 0]), ([3, 3, 1], [3, 3, 1])
)

DISJOINT_SUPPORT = make_case(
    "disjoint", 2, ([1, 2, 0, 0], [0, 0, 1, 3]), ([0, 0, 3, 1], [2, 1, 0, 0])
)

ONE_HOT_DRAFT = make_case(
    "one-hot drafts", 2, ([2, 1, 3], [1, 0, 0]), ([0, 1, 2], [1, 0, 0]), ([1, 2, 1], [0, 0, 1])
)

ONE_HOT_TARGET = make_case(
    "one-hot targets", 2, ([0, 1, 0], [1, 2, 1]), ([0, 0, 1], [1, 1, 4]), ([1, 0, 0], [3, 1, 0])
)

END_IDS = make_case(
    "ids 0 and V-1", 2, ([1, 0, 0, 0, 1], [3, 1, 0, 0, 1]), ([1, 0, 0, 0, 1], [1] * 5)
)

SINGLE_DRAFT = make_case("gamma = 1", 1, ([5, 1, 6], [6, 2, 4]), ([6, 3, 3], [5, 6, 1]))

UNDRAFTABLE_TOKENS = make_case(
    "p = q = 0", 2, ([2, 1, 0], [1, 2, 0]), ([0, 1, 2], [0, 2, 1]), ([1, 1, 0], [1, 1, 0])
)
"""With the drafts (2, 0) each draft token has p = q = 0."""


def large_case(vocab_size: int = 1000) -> ProbeCase:
    """Return random rows over a large vocabulary, a third of the entries zero."""
    rng = np.random.Generator(np.random.PCG64(1000))
    rows = rng.standard_exponential((2, 4, vocab_size)) * (rng.random((2, 4, vocab_size)) < 2 / 3)
    rows /= rows.sum(axis=2, keepdims=True)
    return ProbeCase(f"V = {vocab_size}", 3, rows[0], rows[1])


def broken_cases(value: float) -> tuple[ProbeCase, ...]:
    """Cases with target rows, draft rows or all rows that hold nothing but ``value``."""
    bad = np.full_like(PLAIN_ROWS.targets, value)
    last = np.vstack([PLAIN_ROWS.targets[:2], bad[:1]])
    return (
        ProbeCase("the target", 3, bad, PLAIN_ROWS.drafts),
        ProbeCase("the draft", 3, PLAIN_ROWS.targets, bad),
        ProbeCase("one target row", 3, last, PLAIN_ROWS.drafts),
        ProbeCase("all rows", 3, bad, bad),
    )


ZERO_ROWS = broken_cases(0.0)
NAN_ROWS = broken_cases(float("nan"))


# Loss of the GPU: after some errors the process cannot use it again.


_FATAL_CUDA_ERRORS = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "unspecified launch failure",
)
"""Errors of CUDA after which every later call of the process fails, whatever it asks for."""


class GpuLost(SimverifyError):
    """A probe ended the use of the GPU by a process.

    ``text``: what the code raised. ``probe``: its name; ``grade``: "warning" or "violation"; both
    empty where they are not known yet. ``process``: whose GPU it was.
    """

    def __init__(
        self, text: str, probe: str = "", grade: str = "", process: int | None = None
    ) -> None:
        self.text, self.probe, self.grade = text, probe, grade
        self.process = os.getpid() if process is None else process
        super().__init__(text, probe, grade, self.process)

    def __str__(self) -> str:
        """Return the line for the user."""
        return (
            f"the probe {self.probe!r} ended the use of the GPU by this process: {self.text}; "
            "audit in a process that has not used its GPU, or on the CPU"
        )


def gpu_lost_probe(name: str, lines: Sequence[Probe], lost: Sequence[Probe]) -> Probe | None:
    """Return the line of a probe that is not to be run, None for one that is.

    ``lines``: the probes before it; ``lost``: those that ended the use of the GPU in another
    process. After a violation among these no probe is run.
    """
    before = {one.name: one for one in lost}
    for one in lines:
        if one.name in before and one.outcome == "violation" and name not in before:
            why = f"the code ends the use of its GPU, see {one.name!r}"
            return Probe(name=name, outcome="not run", message=why)
    return before.get(name)


def is_gpu_lost(error: BaseException) -> bool:
    """Whether an exception says that the GPU cannot be used any more."""
    # torch.AcceleratorError is a RuntimeError
    fatal = isinstance(error, RuntimeError) and "CUDA error" in str(error)
    return fatal and any(words in str(error) for words in _FATAL_CUDA_ERRORS)


def is_gpu_in_use() -> bool:
    """Whether this process uses a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


Contract = Literal["verify", "step"]
Rule = Callable[..., Any]


@dataclass(frozen=True)
class CallOutcome:
    """How one call ended.

    ``tokens``: None if it returned nothing usable; ``fault``: why, or how else it broke the
    contract. ``raised``: it was an exception; ``exits``: one that ends the process. ``impossible``:
    an emitted token with p = 0, in words. ``changed``: arguments that were changed in place.
    ``returned``: the type of the result. ``lost``: the process cannot use its GPU any more.
    """

    tokens: Tokens | None
    fault: str = ""
    raised: bool = False
    exits: bool = False
    impossible: str = ""
    changed: tuple[str, ...] = ()
    returned: str = ""
    lost: bool = False


Caller = Callable[..., CallOutcome]
"""``call(case, rng, drafted, *, writable=True)``: runs a rule once on a case.

``drafted``: the draft tokens where the contract takes them.
"""


def make_caller(rule: Rule, contract: Contract, eos: int | None = None) -> Caller:
    """Return what calls ``rule``; ``ValueError`` if a step rule cannot be built anew."""
    if contract == "verify":
        return partial(_call_verify, rule)
    takes_step_arguments(rule)
    return StepCaller(rule, eos)


def build_step_rule(rule: Rule) -> tuple[Rule, Callable[[], Any] | None]:
    """Build a step rule anew: its ``step`` and, if it keeps state, its ``reset``."""
    if takes_step_arguments(rule):
        return rule, None
    instance = call_monitored(rule)
    return instance.step, monitored_reset(instance)


def read_result(result: Any) -> Tokens:
    """Return what the code returned as tokens; :class:`InvalidTokens` says what it is instead."""
    device = str(getattr(result, "device", "cpu"))
    if not device.startswith("cpu"):
        raise InvalidTokens("device", f"returned a tensor on device {device}: return it on the CPU")
    return read_tokens(result)


def _call_verify(
    rule: Rule, case: ProbeCase, rng: Any, drafted: Tokens, *, writable: bool = True
) -> CallOutcome:
    names = ("target_probs", "draft_probs", "draft_tokens")
    block: Any = *case.block(), np.array(drafted, dtype=np.int64)
    given: dict[str, npt.NDArray[Any]] = dict(zip(names, block, strict=True))
    images = {name: (x.shape, x.tobytes()) for name, x in given.items()}
    for x in given.values():
        x.flags.writeable = writable
    returned = ""

    def call() -> tuple[Tokens, str]:
        nonlocal returned
        result = call_monitored(rule, *given.values(), rng)
        dtype = getattr(result, "dtype", None)
        returned = type(result).__name__ + (f" of {dtype}" if dtype is not None else "")
        tokens = read_result(result)
        if len(tokens) > case.gamma + 1:
            text = f"returned {len(tokens)} tokens, gamma + 1 = {case.gamma + 1}"
            raise InvalidTokens("too-many", text)
        check_token_ids(tokens, case.vocab_size)
        wrong = tokens[:-1] != drafted[: len(tokens) - 1]
        return tokens, f"returned {tokens} for the draft {drafted}: no prefix" * wrong

    outcome = attempt_call(call, case)
    changed = [name for name, x in given.items() if (x.shape, x.tobytes()) != images[name]]
    return replace(outcome, changed=tuple(changed), returned=returned)


class StepCaller:
    """Runs generations of a step rule as a server does: one object makes many, on rows of one kind.

    The object is built for a case's first generation, and again after one that broke.
    """

    def __init__(self, rule: Rule, eos: int | None) -> None:
        self._rule, self._eos = rule, eos
        self._case: ProbeCase | None = None
        self._built: tuple[Rule, Callable[[], Any] | None] | None = None

    def __call__(
        self, case: ProbeCase, rng: Any, drafted: Any, *, writable: bool = True
    ) -> CallOutcome:
        """Run one generation; ``drafted`` and ``writable`` are of the verify contract."""
        if case is not self._case:
            self.rebuild()
            self._case = case
        built, self._built = self._built, None

        def call() -> tuple[Tokens, str]:
            nonlocal built
            step, reset = built = built or build_step_rule(self._rule)

            def more(emitted: Tokens) -> Tokens:
                return call_step(step, case, emitted, rng)

            return decode_generation(more, reset, length=case.gamma + 1, eos=self._eos), ""

        outcome = attempt_call(call, case)
        if not outcome.fault:
            self._built = built
        return outcome

    def rebuild(self) -> None:
        """Let the next generation be that of a new object."""
        self._built = None


def call_step(step: Rule, case: ProbeCase, emitted: Tokens, rng: Any) -> Tokens:
    """Return the checked tokens of one call of a step rule after ``emitted``."""
    tokens = read_result(call_monitored(step, emitted, case.target, case.draft, case.gamma, rng))
    check_token_ids(tokens, case.vocab_size)
    return tokens


def attempt_call(
    call: Callable[[], tuple[Tokens, str]], case: ProbeCase | None = None
) -> CallOutcome:
    """Run ``call``, which returns tokens and what is wrong with them; on ``case`` if it is one."""
    try:
        tokens, fault = call()
    except (DeadlineExpired, CannotEnumerate, PathCut):
        raise
    except InvalidTokens as error:
        return CallOutcome(None, str(error))
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if is_user_interrupt(error):
            raise
        text = f"raised {describe_exception(error)}"
        exits = not isinstance(error, Exception)
        return CallOutcome(None, text, raised=True, exits=exits, lost=is_gpu_lost(error))
    impossible = (
        f"emitted token {token} at position {j} of {tokens}, where p = 0"
        for j, token in enumerate(tokens)
        if case is not None and case.targets[j % len(case.targets), token] == 0
    )
    return CallOutcome(tokens, fault, impossible=next(impossible, ""))


Grade = Literal["ok", "warning", "violation", "not run"]

_GRADE_ORDER: tuple[Grade, ...] = ("ok", "not run", "warning", "violation")


SLOW_PROBE_SECONDS, SLOW_PROBE_CALLS = 0.2, 24
"""A probe of slow code that has taken longer, and made so many calls, makes no more of them."""

SLOW_CALL_SECONDS = 2e-3
"""Code is slow above it; faster code has all of its calls, however slow the machine is today."""

ALL_PROBES_SECONDS = 6.0
"""After so many seconds of all probes one call is enough for each that follows."""


class EnoughCalls(BaseException):
    """A probe of slow code has made its calls; ``except Exception`` passes it."""


class ProbeRecorder:
    """Collects what a probe sees; the first of the worst is kept.

    ``took``: seconds of the last call that returned, at first that of an earlier probe. ``before``:
    seconds of all probes before this one.
    """

    def __init__(self, took: float = 0.0, before: float = 0.0) -> None:
        self.outcome: Grade = "ok"
        self.message, self.calls = "", 0
        self.took, self.started = took, monotonic_now()
        self.before, self._watch = before, Stopwatch(sleeps=True)

    @property
    def seconds(self) -> float:
        """Seconds of this probe and of those before it."""
        return self.before + self._watch.seconds()

    def call(self, run: Callable[[], CallOutcome]) -> CallOutcome:
        """Run the code once, counted and timed; ``GpuLost`` if no call can follow.

        Raises ``EnoughCalls`` where slow code had its calls.
        """
        if self.calls:
            early = self.before <= ALL_PROBES_SECONDS
            calls, a_call = (SLOW_PROBE_CALLS, SLOW_CALL_SECONDS) if early else (1, 0.0)
            limit = max(SLOW_PROBE_SECONDS, a_call * self.calls)
            if self.calls >= calls and self._watch.seconds() > limit:
                raise EnoughCalls
        return self.timed(run)

    def timed(self, run: Callable[[], CallOutcome]) -> CallOutcome:
        """As :meth:`call`, for a probe that ends by itself where the code is slow."""
        self.started = monotonic_now()
        outcome = run()
        if outcome.lost:
            raise GpuLost(outcome.fault)
        self.calls += 1
        self.took = monotonic_now() - self.started
        return outcome

    def add(self, outcome: Grade, message: str) -> None:
        """Record something seen."""
        if _GRADE_ORDER.index(outcome) > _GRADE_ORDER.index(self.outcome):
            self.outcome, self.message = outcome, message


def run_probe(
    name: str, body: Callable[[ProbeRecorder], str], seconds: float, line: ProbeRecorder
) -> Probe:
    """Run ``body``, which returns what to say if all is well.

    A call that takes more than half of ``seconds`` is a hang, if the last call that returned took a
    small part of that. Raises ``GpuLost`` if a call ends the use of the GPU.
    """
    began = monotonic_now()
    hung = False
    text = ""
    try:
        with deadline(seconds):
            text = body(line)
    except EnoughCalls:
        text = "nothing wrong in the calls that time allowed"
    except DeadlineExpired:
        ended = monotonic_now()
        hung = ended - line.started > max((ended - began) / 2, MIN_HANG_FACTOR * line.took)
        if hung:
            line.add("violation", f"did not return within {seconds / 2:g} s")
        elif line.calls:
            text = f"{text or 'nothing wrong'} in the calls that time allowed"
        else:
            line.add("not run", f"no call ended within {seconds:g} s: the code is too slow for it")
    except GpuLost as error:
        raise GpuLost(error.text, name, error.grade) from None
    except CannotEnumerate as error:
        line.add("not run", f"cannot be forced: {error}")
    return Probe(name=name, outcome=line.outcome, message=line.message or text, hung=hung)


# Findings about lines of the code under audit.


def make_finding(
    kind: Literal["probe", "contract"], text: str, broke: str | UnsetType = UNSET
) -> Finding:
    """Return a finding, with the line that its text names last, and those that called it."""
    line, callers = next(iter(lines := parse_raise_site(text)), None), lines[1:] or UNSET
    return Finding(kind=kind, text=text, line=line, broke=broke, callers=callers)
