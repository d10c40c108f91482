"""One call of code under audit, and whether it kept its contract; never a traceback of ours.

A probe makes a few, and ends as one line: how bad, in one sentence, within its time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import (
    check_ids,
    read_tokens,
    seen_reset,
    takes_step_arguments,
)
from simverify.auditing.exact.generations.generation import decode
from simverify.auditing.probes.cases import Case
from simverify.auditing.probes.gpu import GpuLost, is_lost
from simverify.results import Probe
from simverify.symbolic.enumeration.endings import BadTokens, Tokens, what_was_raised
from simverify.symbolic.enumeration.engine import LONGER
from simverify.symbolic.enumeration.forks import PathCut
from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired, deadline, now

Contract = Literal["verify", "step"]
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    """How one call ended.

    ``tokens`` is None if it returned nothing usable; ``fault`` says why, or what else broke
    the contract; ``raised`` tells that it was an exception, ``exits`` that it was one which
    ends the process. ``impossible``: an emitted
    token has p = 0 there, in words. ``changed``: the arguments changed in place. ``lost``: the
    process cannot use its GPU any more.
    """

    tokens: Tokens | None
    fault: str = ""
    raised: bool = False
    exits: bool = False
    impossible: str = ""
    changed: tuple[str, ...] = ()
    returned: str = ""
    lost: bool = False


class Caller(Protocol):
    """Runs a rule once on a case under its contract."""

    def __call__(
        self, case: Case, rng: Any, drafted: Tokens | None, *, writable: bool = True
    ) -> Outcome:
        """Run it; ``drafted`` are the draft tokens where the contract takes them."""


def caller(rule: Rule, contract: Contract, eos: int | None = None) -> Caller:
    """Return what calls ``rule``; ``ValueError`` if a step rule cannot be built anew."""
    if contract == "verify":
        return _VerifyCaller(rule)
    takes_step_arguments(rule)
    return _StepCaller(rule, eos)


def built(rule: Rule) -> tuple[Rule, Callable[[], Any] | None]:
    """Build a step rule anew: its ``step`` and, if it keeps state, its ``reset``."""
    if takes_step_arguments(rule):
        return rule, None
    instance = watched(rule)
    return instance.step, seen_reset(instance)


def read(result: Any) -> Tokens:
    """Return what the code returned as tokens; :class:`BadTokens` says what it is instead."""
    device = str(getattr(result, "device", "cpu"))
    if not device.startswith("cpu"):
        raise BadTokens("device", f"returned a tensor on device {device}: return it on the CPU")
    return read_tokens(result)


@dataclass(frozen=True)
class _VerifyCaller:
    rule: Rule

    def __call__(
        self, case: Case, rng: Any, drafted: Tokens | None, *, writable: bool = True
    ) -> Outcome:
        assert drafted is not None, "the verify contract takes draft tokens"
        targets, drafts = case.block()
        given: dict[str, npt.NDArray[Any]] = {
            "target_probs": targets,
            "draft_probs": drafts,
            "draft_tokens": np.array(drafted, dtype=np.int64),
        }
        images = {name: (x.shape, x.tobytes()) for name, x in given.items()}
        for x in given.values():
            x.flags.writeable = writable
        kinds: list[str] = []

        def call() -> tuple[Tokens, str]:
            result = watched(self.rule, *given.values(), rng)
            kinds.append(_kind(result))
            tokens = read(result)
            if len(tokens) > case.gamma + 1:
                text = f"returned {len(tokens)} tokens, gamma + 1 = {case.gamma + 1}"
                raise BadTokens("too-many", text)
            check_ids(tokens, case.vocab_size)
            kept = len(tokens) - 1
            wrong = tokens[:kept] != drafted[:kept]
            return tokens, f"returned {tokens} for the draft {drafted}: no prefix" * wrong

        outcome = attempt(call, case)
        changed = [name for name, x in given.items() if (x.shape, x.tobytes()) != images[name]]
        return replace(outcome, changed=tuple(changed), returned="".join(kinds))


@dataclass(frozen=True)
class _StepCaller:
    rule: Rule
    eos: int | None

    def __call__(
        self, case: Case, rng: Any, drafted: Tokens | None, *, writable: bool = True
    ) -> Outcome:
        def call() -> tuple[Tokens, str]:
            step, reset = built(self.rule)

            def more(emitted: Tokens) -> Tokens:
                tokens = read(watched(step, emitted, case.target, case.draft, case.gamma, rng))
                check_ids(tokens, case.vocab_size)
                return tokens

            return decode(more, reset, length=case.gamma + 1, eos=self.eos), ""

        return attempt(call, case)


def attempt(call: Callable[[], tuple[Tokens, str]], case: Case | None = None) -> Outcome:
    """Run ``call``, which returns tokens and what is wrong with them; on ``case`` if it is one."""
    try:
        tokens, fault = call()
    except (Expired, CannotEnumerate, PathCut):
        raise
    except BadTokens as error:
        return Outcome(None, str(error))
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if from_user(error):
            raise
        text = f"raised {what_was_raised(error)}"
        exits = not isinstance(error, Exception)
        return Outcome(None, text, raised=True, exits=exits, lost=is_lost(error))
    return Outcome(tokens, fault, impossible=_impossible(tokens, case) if case else "")


def _impossible(tokens: Tokens, case: Case) -> str:
    """Say which emitted token has p = 0 at its position; "" if none has."""
    for j, token in enumerate(tokens):
        if case.targets[j % len(case.targets), token] == 0:
            return f"emitted token {token} at position {j} of {tokens}, where p = 0"
    return ""


def _kind(result: Any) -> str:
    dtype = getattr(result, "dtype", None)
    return type(result).__name__ + (f" of {dtype}" if dtype is not None else "")


Grade = Literal["ok", "warning", "violation", "not run"]

_ORDER: tuple[Grade, ...] = ("ok", "not run", "warning", "violation")


class Line:
    """Collects what a probe sees; the first of the worst is kept.

    ``took``: seconds of the last call that returned, at first that of an earlier probe.
    """

    def __init__(self, took: float = 0.0) -> None:
        self.outcome: Grade = "ok"
        self.message = ""
        self.calls = 0
        self.took = took
        self.started = now()

    def call(self, run: Callable[[], Outcome]) -> Outcome:
        """Run the code once, counted and timed; ``GpuLost`` if no call can follow."""
        self.started = now()
        outcome = run()
        if outcome.lost:
            raise GpuLost(outcome.fault)
        self.calls += 1
        self.took = now() - self.started
        return outcome

    def add(self, outcome: Grade, message: str) -> None:
        """Record something seen."""
        if _ORDER.index(outcome) > _ORDER.index(self.outcome):
            self.outcome, self.message = outcome, message


def probe(name: str, body: Callable[[Line], str], seconds: float, line: Line) -> Probe:
    """Run ``body``, which returns what to say if all is well.

    One call that takes more than half of ``seconds`` when they end is a hang, if the last one
    that returned took a small part of that; many slow ones are judged by those that ended.
    Raises ``GpuLost`` if a call ends the use of the GPU.
    """
    began = now()
    hung = False
    text = ""
    try:
        with deadline(seconds):
            text = body(line)
    except Expired:
        ended = now()
        hung = ended - line.started > max((ended - began) / 2, LONGER * line.took)
        if hung:
            line.add("violation", f"did not return within {seconds / 2:g} s")
        elif line.calls:
            text = f"{text or 'nothing amiss'} in the calls that time allowed"
        else:
            line.add("not run", f"no call ended within {seconds:g} s, as slow as the others are")
    except GpuLost as error:
        raise GpuLost(error.text, name, error.grade) from None
    except CannotEnumerate as error:
        line.add("not run", f"cannot be forced: {error}")
    return Probe(name=name, outcome=line.outcome, message=line.message or text, hung=hung)
