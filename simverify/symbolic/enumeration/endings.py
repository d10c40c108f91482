"""How a call of code under audit is run, how it ends, and the exact law of its ends.

A path is run once, and again to see whether it was really followed.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from simverify.errors import SimverifyError
from simverify.roles import role_of_module
from simverify.symbolic.enumeration.paths import Choice, Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import UNTRACKED, CannotEnumerate, Finding, OnSymbolsAlone, Untracked
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired
from simverify.symbolic.misfits import misfit
from simverify.symbolic.whose import raised_at

Tokens = tuple[int, ...]


class BadTokens(Exception):
    """What the code returned is not a sequence of tokens; carries the finding's text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Outcome:
    """One call's end: the tokens, or what went wrong."""

    tokens: Tokens | None
    kind: str = ""
    message: str = ""


def what_was_raised(error: BaseException) -> str:
    """Return ``ValueError: its message (file:line, called at file:line)``, the user's own lines.

    Of the message the first line, cut to a readable length; a bare ``raise ValueError`` has none,
    which is said.
    """
    name = type(error).__name__
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["(its message cannot be printed)"]
    what = f"{name}: {lines[0][:200]}" if lines and lines[0] else f"{name} without a message"
    return what + raised_at(error)


@dataclass
class End:
    """Paths that end alike: the same tokens, and the same mark made at their ends.

    ``ways``: the choices of the first of them, and of one that chose otherwise, if any.
    """

    tokens: Tokens
    mark: Hashable
    weight: float = 0.0
    ways: list[tuple[Choice, ...]] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Count one more path."""
        self.weight += float(path.weight)
        if len(self.ways) < 2:
            self.ways.append(tuple(path.choices[: path.position]))


@dataclass(frozen=True)
class ExactLaw:
    """The exact law of what a piece of code emits.

    ``probabilities`` maps each emitted tuple of tokens to its probability; ``lost`` is the
    mass of paths that emitted nothing usable (see ``findings``) and ``pruned`` bounds the
    mass of what was not run or not followed to the last bit. The three sum to 1.
    ``complete`` is false if the code never came back and the rest was not run. ``dtypes``: the
    precisions below float64 of numbers that met a draw. ``ends``: the same law with the marks
    of its paths, where they were asked for; ``lost_by``: what was lost, by kind of finding.
    """

    probabilities: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool = True
    dtypes: frozenset[str] = frozenset()
    ends: tuple[End, ...] = ()
    lost_by: tuple[tuple[str, float], ...] = ()

    @property
    def open(self) -> dict[Tokens, float]:
        """Sequences after which nothing is known: none, every path was run to its end."""
        return {}


Call = Callable[[], Tokens]
"""Runs the code once and returns canonical tokens, or raises :class:`BadTokens`."""

_REPLAYS = ((8, 8), (32, 2))
"""(n, k): of the leaves up to the n-th of an enumeration, each is run again k times."""

_REPLAY_EVERY = 64
"""Beyond those, one leaf in this many is run again, once."""

_REPEATS = 16
"""Runs of code that never forked."""


def attempt(source: Source, call: Call) -> Outcome:
    """Run the code on the draws of ``source``, and say how it ended.

    Raises :class:`CannotEnumerate` where it did what cannot be followed, even if the code
    swallowed that; ``Expired`` and the user's Ctrl-C pass through. Raises ``SimverifyError`` where
    an engine's adapter, not the engine, is what failed.
    """
    outcome: Outcome
    try:
        outcome = Outcome(call())
    except Expired:
        raise
    except CannotEnumerate:
        outcome = Outcome(None)
    except BadTokens as error:
        outcome = Outcome(None, error.kind, str(error))
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if from_user(error):
            raise
        if place := misfit(error):
            raise SimverifyError(
                f"the engine's adapter does not fit it: {type(error).__name__}: {error} ({place})"
            ) from error
        if isinstance(error, MemoryError) and _is_ours(error):
            source.refuse("what needs more memory than there is")
        message = f"raised {what_was_raised(error)}"
        outcome = Outcome(None, "raises", message)
    if source.cut:
        return Outcome(None, "cut")
    if source.failure is not None:
        # The code may have swallowed it; the path was wrong from there on.
        raise source.failure
    return outcome


def _is_ours(error: BaseException) -> bool:
    """Whether a stand-in raised it: on draws it may need memory that the library does without."""
    trace, ours = error.__traceback__, False
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        ours = ours or role_of_module(str(name)) == "stand-in"
        trace = trace.tb_next
    return ours


def confirmed(
    source: Source, call: Call, outcome: Outcome, rng: np.random.Generator, leaf: int
) -> bool:
    """Run the ``leaf``-th path of an enumeration again, if it is its turn.

    Returns false where it does not repeat and may be of rounding alone: what it emits is not known.
    """
    if not source.path.choices and not source.draws:
        repeat(source, call, outcome)
    return all(replay(source, call, outcome, rng) for _ in range(replays(leaf, outcome)))


def repeat(source: Source, call: Call, outcome: Outcome) -> None:
    """Run code that drew nothing again: it may draw from something not intercepted."""
    for _ in range(_REPEATS):
        if not _same(attempt(source, call), outcome):
            source.refuse(f"{UNTRACKED}: the result changed", Untracked)


def replay(source: Source, call: Call, outcome: Outcome, rng: np.random.Generator) -> bool:
    """Run the path again on plain numbers; it must end the same way.

    Returns false where it does not, and may be a path that rounding made.
    """
    kept, may_fail = source.snapshot(), source.is_of_rounding()
    plan = source.plan_like_this_path(rng)
    if plan is None:
        if outcome.tokens is None:
            source.refuse(f"code that {outcome.message}, where no numbers confirm it")
        return True
    source.begin(Path(), plan)
    try:
        with source.builtins.plain():
            again = attempt(source, call)
    except CannotEnumerate:
        if may_fail:
            source.failure = None
            source.restore(kept)
            return False
        if outcome.kind == "raises":
            source.failure = None
            source.refuse(f"code that {outcome.message} on a symbolic draw", OnSymbolsAlone)
        raise
    source.restore(kept)
    same = _same(again, outcome)
    if not (same or may_fail):
        if outcome.tokens is None:
            source.refuse(f"code that {outcome.message} on a symbolic draw", OnSymbolsAlone)
        source.refuse(
            f"{UNTRACKED}: a repeated path emitted "
            f"{again.tokens or again.kind} instead of {outcome.tokens or outcome.kind}",
            Untracked,
        )
    return same


def _same(again: Outcome, outcome: Outcome) -> bool:
    return (again.tokens, again.kind) == (outcome.tokens, outcome.kind)


def replays(leaf: int, outcome: Outcome) -> int:
    """How often the ``leaf``-th path of an enumeration is replayed."""
    if outcome.kind == "cut":
        return 0
    for last, times in _REPLAYS:
        if leaf <= last:
            return times
    return int(outcome.tokens is None or leaf % _REPLAY_EVERY == 0)
