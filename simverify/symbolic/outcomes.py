"""Runs of code under audit on a path: how it ends, whether it repeats, the exact law of its ends.

A path is run once, and again to see whether it was really followed.
"""

# ruff: noqa: D102 - methods and functions whose name and types say what a docstring would

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, Protocol

import numpy as np

from simverify.errors import SimverifyError
from simverify.roles import role_of_module
from simverify.symbolic.compiled import loaded_mlx
from simverify.symbolic.paths import Choice, Path
from simverify.symbolic.provenance import (
    STALE_ARRAY,
    UNTRACKED_RANDOMNESS,
    CannotEnumerate,
    Finding,
    RaisesOnSymbolsOnly,
    UntrackedRandomness,
    adapter_error_location,
    describe_raise_site,
)
from simverify.symbolic.scalar import Uniform
from simverify.symbolic.source import MIDDLE_SHARES, RandomSource
from simverify.symbolic.watchdog import DeadlineExpired, deadline, is_user_interrupt

# Draws with an address: code that counts instead of keeping a generator's state.
#
# A counter-based generator gives a number for a key and a counter. Asked twice for one address it
# gives one number, so on a path there is one draw for each address.


_ACTIVE_SOURCES: "list[RandomSource]" = []


@contextmanager
def activate_source(source: "RandomSource") -> "Iterator[None]":
    """Let code that has draws of its own ask for ``source`` inside the block."""
    _ACTIVE_SOURCES.append(source)
    try:
        yield
    finally:
        _ACTIVE_SOURCES.remove(source)


def active_source() -> "RandomSource | None":
    """Return the randomness of the path that is run now; None where code just runs."""
    return _ACTIVE_SOURCES[-1] if _ACTIVE_SOURCES else None


def draw_at_address(source: "RandomSource", address: Hashable, new: Callable[[], Any]) -> Any:
    """Return the draw at an address: ``new()`` the first time on a path, then the same again."""
    if address not in source.addressed:
        source.addressed[address] = new()
    return source.addressed[address]


Tokens = tuple[int, ...]


class InvalidTokens(Exception):
    """What the code returned is not a sequence of tokens; carries the finding's text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class PathOutcome:
    """One call's end: the tokens, or what went wrong."""

    tokens: Tokens | None
    kind: str = ""
    message: str = ""

    def ends_as(self, other: "PathOutcome") -> bool:
        """Whether another call ended the same way; messages may differ."""
        return (self.tokens, self.kind) == (other.tokens, other.kind)

    def describe(self) -> str:
        if self.tokens is not None:
            return f"emits {', '.join(map(str, self.tokens))}"
        return self.message or self.kind


def describe_exception(error: BaseException) -> str:
    """Return ``Type: first line (file:line, called at file:line)``, or that there is no message."""
    name = type(error).__name__
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["(its message cannot be printed)"]
    what = f"{name}: {lines[0][:200]}" if lines and lines[0] else f"{name} without a message"
    return what + describe_raise_site(error)


@dataclass
class PathEnding:
    """Paths that end alike, in tokens and mark; ``ways``: the choices of the first two of them."""

    tokens: Tokens
    mark: Hashable
    weight: float = 0.0
    ways: list[tuple[Choice, ...]] = field(default_factory=list)

    def add(self, path: Path) -> None:
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
    precisions below float64 of numbers that met a draw, each with the line where it first did.
    ``ends``: the same law with the marks
    of its paths, where they were asked for; ``lost_by``: what was lost, by kind of finding.
    """

    probabilities: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool = True
    dtypes: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[PathEnding, ...] = ()
    lost_by: tuple[tuple[str, float], ...] = ()

    @property
    def open(self) -> dict[Tokens, float]:
        """Sequences after which nothing is known: none, every path was run to its end."""
        return {}


TokenCall = Callable[[], Tokens]
"""Runs the code once and returns canonical tokens, or raises :class:`InvalidTokens`."""

_REPLAY_SCHEDULE = ((8, 8), (32, 2))
"""(n, k): of the leaves up to the n-th of an enumeration, each is run again k times."""

_REPLAY_EVERY = 64
"""Beyond those, one leaf in this many is run again, once."""

_UNFORKED_RUNS = 16
"""Runs of code that never forked."""


_MLX_TOOK_NO_ARRAY = re.compile(
    r"incompatible function arguments.*Invoked with types:.*(mlx\.core\.array|list|tuple)"
    r"|Invalid type mlx\.core\.array received",
    re.DOTALL,
)
"""What MLX says of the stand-in for an array, where a function of its own is given one."""


def is_held_function(error: BaseException) -> bool:
    """Whether a function of MLX's own may have been given the stand-in for an array."""
    return _MLX_TOOK_NO_ARRAY.search(str(error)) is not None


def run_call(source: RandomSource, call: TokenCall) -> PathOutcome:
    """Run the code on the draws of ``source``, and say how it ended.

    Raises :class:`CannotEnumerate` where it did what cannot be followed, even if the code
    swallowed that; ``Expired`` and the user's Ctrl-C pass through. Raises ``SimverifyError`` where
    an engine's adapter, not the engine, is what failed.
    """
    try:
        outcome = PathOutcome(call())
    except DeadlineExpired:
        raise
    except CannotEnumerate:
        outcome = PathOutcome(None)
    except InvalidTokens as error:
        outcome = PathOutcome(None, error.kind, str(error))
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if is_user_interrupt(error):
            raise
        if place := adapter_error_location(error):
            raise SimverifyError(
                f"the engine's adapter does not fit it: {type(error).__name__}: {error} ({place})"
            ) from error
        # On draws a stand-in may need memory that the library does without. What walks the
        # traceback has no name: it would hold this frame, and the traceback all of the code's.
        if isinstance(error, MemoryError) and any(
            role_of_module(str(frame.f_globals.get("__name__", ""))) == "stand-in"
            for frame, _ in walk_tb(error.__traceback__)
        ):
            source.refuse("what needs more memory than there is")
        if STALE_ARRAY in str(error):
            source.refuse("an array of MLX's that code keeps from call to call")
        if loaded_mlx() is not None and is_held_function(error):
            # Or the code gives it what it never takes: then calls without stand-ins raise too.
            source.refuse("a function of MLX's that is held in a container, or by a partial")
        outcome = PathOutcome(None, "raises", f"raised {describe_exception(error)}")
    if source.cut:
        return PathOutcome(None, "cut")
    if source.failure is not None:
        # The code may have swallowed it; the path was wrong from there on.
        raise source.failure
    return outcome


def confirm_path(
    source: RandomSource, call: TokenCall, outcome: PathOutcome, rng: np.random.Generator, leaf: int
) -> bool:
    """Run a path again where it is due; false where it differs, and may be of rounding alone."""
    if not source.path.choices and not source.draws:
        # Code that drew nothing may draw from something that is not intercepted.
        for _ in range(_UNFORKED_RUNS):
            if not run_call(source, call).ends_as(outcome):
                source.refuse(f"{UNTRACKED_RANDOMNESS}: the result changed", UntrackedRandomness)
    if outcome.kind == "cut":
        return True
    later = int(outcome.tokens is None or leaf % _REPLAY_EVERY == 0)
    times = next((times for last, times in _REPLAY_SCHEDULE if leaf <= last), later)
    return all(replay_path(source, call, outcome, rng) for _ in range(times))


def replay_path(
    source: RandomSource, call: TokenCall, outcome: PathOutcome, rng: np.random.Generator
) -> bool:
    """Run the path on plain numbers; false where it ends otherwise, and may be rounding's."""
    snapshot, may_fail = source.snapshot(), source.is_of_rounding()
    if (plan := source.plan_like_this_path(rng)) is None:
        if outcome.tokens is None:
            source.refuse(f"code that {outcome.message}, where no numbers confirm it")
        return True
    on_symbols = f"code that {outcome.message} on a symbolic draw"
    source.begin(Path(), plan)
    try:
        with source.builtins.plain():
            again = run_call(source, call)
    except CannotEnumerate:
        if may_fail:
            source.failure = None
            source.restore(snapshot)
            return False
        if outcome.kind == "raises":
            source.failure = None
            source.refuse(on_symbols, RaisesOnSymbolsOnly)
        raise
    source.restore(snapshot)
    same = again.ends_as(outcome)
    if not (same or may_fail):
        if outcome.tokens is None:
            source.refuse(on_symbols, RaisesOnSymbolsOnly)
        source.refuse(
            f"{UNTRACKED_RANDOMNESS}: a repeated path emitted "
            f"{again.tokens or again.kind} instead of {outcome.tokens or outcome.kind}",
            UntrackedRandomness,
        )
    return same


# Witnesses: numbers that lead down a path, and whether the code follows it on them.


INTERVAL_SHARES = ((0.02, 0.02), (0.98, 0.98), MIDDLE_SHARES)
"""Where in their intervals the uniforms lie, run by run: near either end, then anywhere. A
stand-in that is right in the middle may still round otherwise at an end."""

_MIN_WIDE_INTERVAL = 1e-4
"""Uniforms in shorter intervals stay away from the ends, where float32 rounds across them."""

_HANG_SECONDS = 5.0
"""Processor seconds after which a run on plain numbers is taken not to return."""

NumberPlan = tuple[float | int, ...]


class EnumeratedCode(Protocol):
    """What was enumerated: its source, and how to run it where nothing stands in."""

    source: RandomSource

    def plainly(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class Witness:
    """A path of ``call``: how it ended, its weight there, and numbers for a run each."""

    call: TokenCall
    outcome: PathOutcome
    weight: float
    plans: tuple[NumberPlan, ...]


@dataclass
class RepeatResult:
    """What came of repeating paths on numbers in the real libraries' own types.

    ``paths``: of all, and how many ``repeated``. ``missing``: the largest part, of the laws
    that the paths are of, that did not repeat or was not tried. ``masses``: by kind of ending
    without tokens, the largest part of a law that repeated it. ``findings``: kinds of
    findings that were met on the way. ``otherwise``: what the first path did that did not repeat.
    """

    paths: int
    repeated: int = 0
    missing: float = 0.0
    masses: dict[str, float] = field(default_factory=dict)
    findings: set[str] = field(default_factory=set)
    otherwise: str = ""


def witness_plans(source: RandomSource, rng: np.random.Generator) -> tuple[NumberPlan, ...]:
    """Return numbers for each of :data:`INTERVAL_SHARES` that lead down the path just run."""
    widths = (draw.high - draw.low for draw in source.draws if isinstance(draw, Uniform))
    short = any(width < _MIN_WIDE_INTERVAL for width in widths)
    parts = (MIDDLE_SHARES if short else part for part in INTERVAL_SHARES)
    plans = [source.plan_like_this_path(rng, part) for part in parts]
    return tuple(dict.fromkeys(tuple(plan) for plan in plans if plan is not None))


def repeat_witnesses(
    enumeration: EnumeratedCode, trails: Sequence[Witness], *, most: int
) -> RepeatResult:
    """Run the heaviest ``most`` of the trails of an enumeration on plain numbers."""
    repeats = RepeatResult(paths=len(trails))
    missing: dict[int, float] = {}
    masses: dict[tuple[int, str], float] = {}
    seeds: list[frozenset[Hashable]] = []
    source = enumeration.source
    source.findings.clear()
    # Made before interception: what follows a plan are real numbers.
    beyond = np.random.Generator(np.random.PCG64(20254))
    with enumeration.plainly():
        for i, trail in enumerate(sorted(trails, key=lambda trail: -trail.weight)):
            law = id(trail.call)
            otherwise = (
                "was not tried" if i >= most else _different_behaviour(source, trail, seeds, beyond)
            )
            if otherwise:
                missing[law] = missing.get(law, 0.0) + trail.weight
                repeats.otherwise = repeats.otherwise or otherwise
                continue
            repeats.repeated += 1
            if trail.outcome.tokens is None:
                kind = trail.outcome.kind
                masses[law, kind] = masses.get((law, kind), 0.0) + trail.weight
    repeats.missing = max(missing.values(), default=0.0)
    for (_, kind), mass in masses.items():
        repeats.masses[kind] = max(repeats.masses.get(kind, 0.0), mass)
    repeats.findings = {finding.kind for finding in source.findings.values()} - {"constant-seed"}
    # A seed that was drawn, or counts the calls, differs from run to run.
    if len(seeds) > 1 and frozenset.intersection(*seeds):
        repeats.findings.add("constant-seed")
    source.findings.clear()
    return repeats


def _different_behaviour(
    source: RandomSource,
    trail: Witness,
    seeds: list[frozenset[Hashable]],
    beyond: np.random.Generator,
) -> str:
    """Return what the code does instead on some of the trail's numbers; "" if it repeats."""
    if not trail.plans:
        return "has no numbers that lead down it"
    hung, expected = trail.outcome.kind == "hangs", trail.outcome.describe()
    for plan in trail.plans:
        source.begin(Path(), list(plan))
        # An interrupted run may have been about to draw: it continues with other numbers.
        source.beyond = beyond if hung else None
        try:
            with deadline(_HANG_SECONDS):
                again = run_call(source, trail.call)
        except DeadlineExpired:
            if not hung:
                return f"does not return, instead of {expected}"
            return ""
        except CannotEnumerate as error:
            return f"goes on, instead of {expected} ({error})"
        finally:
            source.beyond = None
        if source.constant_seeds:
            seeds.append(source.constant_seeds)
        if not again.ends_as(trail.outcome):
            return f"{again.describe()}, instead of {expected}"
    return ""
