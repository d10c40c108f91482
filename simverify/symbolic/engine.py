"""The enumeration: depth-first re-execution of code, which gives the exact law of its output."""

# ruff: noqa: D102 - methods and functions whose name and types say what a docstring would

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np

from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.arrays import is_symbolic
from simverify.symbolic.bindings import compiled_kernel_error
from simverify.symbolic.compiled import noting_calls, same_draws
from simverify.symbolic.equal_streams import HeldStates
from simverify.symbolic.numpy_random import SymbolicGenerator
from simverify.symbolic.outcomes import (
    ExactLaw,
    InvalidTokens,
    PathEnding,
    PathOutcome,
    TokenCall,
    Tokens,
    Witness,
    confirm_path,
    run_call,
    witness_plans,
)
from simverify.symbolic.patching import (
    intercept_randomness,
    preserve_global_states,
    real_generator_states,
)
from simverify.symbolic.paths import Choice, HeaviestFirst, Path, TooManyPaths, explore
from simverify.symbolic.promotion import Float64Promotion
from simverify.symbolic.provenance import (
    UNTRACKED_RANDOMNESS,
    ArrayOfDraws,
    CannotEnumerate,
    CompiledFunction,
    FloatOfDraw,
    InstanceTooLarge,
    IntOfDraw,
    OutOfTime,
    RaisesOnSymbolsOnly,
    StandInsChanged,
    TooManyValues,
    UntrackedRandomness,
    boundary,
    current_user_line,
)
from simverify.symbolic.races import Atom, DecisionKind, site_line
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import RandomSource, UndecidedOutcome
from simverify.symbolic.watchdog import DeadlineExpired, Stopwatch, deadline, monotonic_now

EDGE_PROBABILITY = 1e-6
"""Up to this probability what goes wrong is an event at the edge of a draw: a warning."""

MIN_HANG_SECONDS = 1.0
"""A path that was cut off sooner than this had too little time to be called a hang."""

MIN_HANG_FACTOR = 20
"""Nor is one a hang that took less than so many times the longest path that came to its end:
slow code, which a slower machine or a shorter limit cuts off, is no code that never returns."""


_COMPARED_INSTANCES, _COMPARED_CALLS = 40, 25
"""How many instances are compared, and how many calls on each."""

_COMPARED_AT_FIRST, _COMPARED_AT_MOST = 200, 1_000
"""Calls to compare a newly reached function; the larger number if the smaller does not reach it."""

BY_SOURCE = "judged-by-source"


def _by_source_note(name: str) -> str:
    return (
        f"{name} was followed by its Python source; in at least {_COMPARED_CALLS} trial runs its "
        "compiled code did the same, and a rarer difference would not show"
    )


_COMPARED_SECONDS = 1.0
"""A source that takes longer than this for so many calls is not followed."""


@dataclass(frozen=True)
class Budget:
    """What an enumeration may take: paths, and seconds of :class:`Stopwatch` (None: no limit).

    ``enough``: the mass that may be left out, heaviest paths first, of code whose paths have no
    end; None: every path is run.
    """

    paths: int
    seconds: float | None = None
    enough: float | None = None


@dataclass
class Spending:
    """What several enumerations have taken of one budget, whose clock starts here."""

    budget: Budget
    paths: int = 0
    watch: Stopwatch = field(default_factory=partial(Stopwatch, sleeps=True))

    def remaining(self, parts: int | None = None) -> Budget:
        """Return what is left; raises ``OutOfTime`` or ``TooManyPaths`` where that is nothing.

        ``parts``: where mass may be left out, so many enumerations share the paths evenly.
        """
        limit, seconds = self.budget.paths, self.budget.seconds
        if seconds is not None:
            seconds -= self.watch.seconds()
            if seconds <= 0:
                raise OutOfTime(self.watch.seconds(), self.paths)
        if parts is not None and self.budget.enough is not None:
            return replace(self.budget, paths=max(1, limit // parts), seconds=seconds)
        if self.paths >= limit:
            raise TooManyPaths(limit)
        return replace(self.budget, paths=limit - self.paths, seconds=seconds)

    def take(self, run: Callable[[Budget], ExactLaw], parts: int | None = None) -> ExactLaw:
        """Return what ``run`` finds within :meth:`remaining`, and count its paths."""
        left = self.remaining(parts)
        try:
            law = run(left)
        except TooManyPaths:
            raise TooManyPaths(self.budget.paths) from None
        self.paths += law.paths
        return law

    def remaining_time(self) -> Budget:
        """Return the whole budget with the seconds that are left, a hundredth at least."""
        seconds = self.budget.seconds
        if seconds is not None:
            seconds = max(0.01, seconds - self.watch.seconds())
        return replace(self.budget, seconds=seconds)


class Enumeration:
    """Interception of the randomness of ``code`` for the length of a ``with`` block.

    ``run`` may be called many times inside; setting up once per audit keeps paths cheap.
    ``rng`` is the symbolic generator to hand to the code. ``leaves`` counts the paths that ended,
    of which the first are replayed most; it may start with those of an earlier enumeration.
    ``lift``: types that count as float64. ``trails``: a list that collects every path, with numbers
    that lead down it, or None. ``stuck``: the path on which the code did not return.
    ``interceptions`` counts how often stand-ins replaced names; ``intercepting``: whether they do.
    """

    rng: np.random.Generator

    def __init__(
        self,
        code: Any,
        *,
        prune: float = 1e-12,
        seed_once: bool = False,
        leaves: int = 0,
        lift: Float64Promotion | None = None,
    ) -> None:
        self._code = code
        self.source = RandomSource(prune, seed_once=seed_once)
        self._stack = ExitStack()
        self.leaves = leaves
        self._lift = lift
        self._shadow_float = self._shadow_int = self._shadow_arrays = False
        self._shadow_kept = False
        self.interceptions = self._compared = 0
        self._verified: set[CompiledFunction] = set()
        self._as_draws: tuple[CannotEnumerate, int] | None = None
        self.release()
        # Made before interception: the replays need real numbers.
        self._replay_rng = np.random.Generator(np.random.PCG64(20251))
        self._longest = 0.0
        self.trails: list[Witness] | None = None
        self.stuck: Witness | None = None

    def __enter__(self) -> "Enumeration":
        return self

    def _intercept(self, call: TokenCall) -> None:
        """Intercept from now on, after a plain run in which the code may import things.

        An import under interception would take its own random numbers from us, and torch can
        only be followed once the code has imported it.
        """
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(np.errstate(all="ignore"))
            self.source.begin(Path())
            with preserve_global_states():
                with noting_calls(self.source.compiled):
                    run_call(self.source, call)
                known = self.source.compiled or self._verified
                if known and self._compared < _COMPARED_INSTANCES:
                    self._compare_compiled(call)
            self.rng = stack.enter_context(
                intercept_randomness(
                    self.source,
                    self._code,
                    shadow_float=self._shadow_float,
                    shadow_int=self._shadow_int,
                    shadow_arrays=self._shadow_arrays,
                    shadow_kept=self._shadow_kept,
                    lift=self._lift,
                )
            )()
            self._stack = stack.pop_all()
        self.intercepting = True
        self.interceptions += 1

    def _compare_compiled(
        self, call: TokenCall, calls: int = _COMPARED_CALLS
    ) -> set[CompiledFunction]:
        """Refuse compiled code that behaves differently from its source.

        Returns the functions that these calls reach.
        """
        self._compared += 1
        reached: set[CompiledFunction] = set()
        name, where = min(self.source.compiled - self._verified or self._verified)
        slow = CannotEnumerate(f"{name} by its source, which is too slow", where)
        # Nothing interrupts numba where it compiles, as code does that compiles in each call.
        states = HeldStates(self._code)
        try:
            with noting_calls(set()):
                compiled = self._plain_ends(call, calls, None)
            states.put_back()
            with deadline(_COMPARED_SECONDS):
                ends = self._plain_ends(call, calls, reached)
        except DeadlineExpired:
            raise slow from None
        finally:
            states.put_back()
        if len(compiled) < _COMPARED_CALLS or len(ends) < _COMPARED_CALLS:
            raise slow
        # Where the time ended first, the same calls of both are compared.
        for end, other in zip(compiled, ends, strict=False):
            if not end.ends_as(other):
                raise CannotEnumerate(
                    f"{name} by its source: compiled it {end.describe()}, where the source "
                    f"{other.describe()}",
                    where,
                )
        return reached

    def _verify(self, call: TokenCall) -> None:
        """Compare functions that this call reached, and no call before."""
        for calls in (_COMPARED_AT_FIRST, _COMPARED_AT_MOST):
            with preserve_global_states():
                self._verified |= self._compare_compiled(call, calls)
            unverified = self.source.compiled - self._verified
            if not unverified:
                return
        name, where = min(unverified)
        raise CannotEnumerate(
            f"{name} by its source: none of {calls:,} trial runs called it", where
        )

    def _plain_ends(
        self, call: TokenCall, calls: int, as_source: set[CompiledFunction] | None
    ) -> list[PathOutcome]:
        """Return how calls end on real generators, from a seed each; see ``same_draws``."""
        handed, ends, watch = self.rng, list[PathOutcome](), Stopwatch()
        for seed in range(calls):
            if watch.seconds() > _COMPARED_SECONDS:
                break
            self.source.begin(Path())
            self.rng = np.random.Generator(np.random.PCG64(seed))
            with same_draws(seed, as_source):
                ends.append(run_call(self.source, call))
        self.rng = handed
        return ends

    def __exit__(self, *_raised: object) -> None:
        self.release()

    def release(self) -> None:
        """Put everything back until the next run."""
        self._stack.close()
        self.intercepting = False
        self.rng = np.random.Generator(np.random.PCG64(20250))

    @boundary
    def run(
        self,
        call: TokenCall,
        budget: Budget,
        *,
        since: Sequence[Choice] = (),
        mark: Callable[[], Hashable] | None = None,
    ) -> ExactLaw:
        """Enumerate ``call``, which runs the code once and returns canonical tokens.

        ``since``: only what follows these choices, on condition that they are made. ``mark``: asked
        at the end of each path that emitted tokens; then ends are kept. ``call`` raises
        ``InvalidTokens`` for an unusable result. Raises :class:`CannotEnumerate`,
        :class:`StandInsChanged` (``since`` alone), :class:`OutOfTime` or ``TooManyPaths``.
        """
        if self._verified and not since and self._compared < _COMPARED_INSTANCES:
            self.release()  # of this call, too, it is seen whether the source does the same
        spending, count = Spending(budget), len(self.trails or ())
        while True:
            try:
                self.source.compiled.clear()
                law = self._run(call, budget, since, mark)
                if self.source.compiled - self._verified:
                    self.release()
                    self._verify(call)
                return law
            except CannotEnumerate as error:
                # The paths before the one that stopped it are kept: what they did may repeat.
                if not self._another_way(error):
                    raise compiled_kernel_error(self._code, self._furthest(error)) from None
                del (self.trails or [])[count:]
                if since:
                    raise StandInsChanged from None
            budget = spending.remaining_time()

    def _another_way(self, error: CannotEnumerate) -> bool:
        """Whether to try again with other stand-ins, which would stop code that needs none."""
        # Draws in np.array([u, 0.3]) are doubles from then on, which numpy does not tell them.
        if isinstance(error, ArrayOfDraws):
            self._shadow_arrays, self.source.refuses_arrays = True, False
        elif isinstance(error, UntrackedRandomness) and not self.source.signs_zeros:
            self._shadow_float = self.source.signs_zeros = True
        elif isinstance(error, FloatOfDraw | RaisesOnSymbolsOnly) and not self._shadow_float:
            self._shadow_float = True
        elif isinstance(error, FloatOfDraw) and not self._shadow_kept:
            self._shadow_kept = True
        elif isinstance(error, IntOfDraw) and not self._shadow_int:
            self._shadow_int, self.source.refuses_many = True, False
        elif (
            self.source.postponed
            and not self.source.at_once
            and not isinstance(error, InstanceTooLarge)
        ):
            self._shadow_int = self.source.refuses_many = False
            self.source.at_once = True
            self._as_draws = error, len(self.source.draws)
        else:
            return False
        self.release()
        return True

    def _furthest(self, error: CannotEnumerate) -> CannotEnumerate:
        """Return the error of the try that got further: to fork on each value may stop sooner."""
        if self._as_draws is None or not isinstance(error, TooManyValues):
            return error
        before, draws = self._as_draws
        if len(self.source.draws) > draws:
            return error
        return type(before)(before.call, before.where, error.findings)

    def _run(
        self,
        call: TokenCall,
        budget: Budget,
        since: Sequence[Choice],
        mark: Callable[[], Hashable] | None,
    ) -> ExactLaw:
        source = self.source
        law: dict[Tokens, float] = {}
        ends: dict[tuple[Tokens, Hashable], PathEnding] = {}
        lost = slack = 0.0
        paths = 0
        watch, path_started = Stopwatch(), monotonic_now()

        def one(path: Path) -> PathOutcome:
            nonlocal path_started
            path_started = monotonic_now()
            source.begin(path)
            outcome = run_call(source, call)
            self._longest = max(self._longest, monotonic_now() - path_started)
            if self.trails is not None and outcome.kind != "cut":
                self.trails.append(self._trail(call, path, outcome))
            marked = None if outcome.tokens is None or mark is None else mark()
            self.leaves += 1
            if not confirm_path(source, call, outcome, self._replay_rng, self.leaves):
                del (self.trails or [])[-1:]
                return PathOutcome(None, "cut")
            if mark is not None and outcome.tokens is not None:
                key = outcome.tokens, marked
                ends.setdefault(key, PathEnding(*key)).add(path)
            return outcome

        by_kind: dict[str, float] = {}
        complete = True
        try:
            with deadline(budget.seconds):
                if not self.intercepting:
                    self._intercept(call)
                source.findings.clear()
                source.dtypes.clear()
                source.pruned = 0.0
                before = real_generator_states()
                heaviest = None
                if budget.enough is not None:
                    heaviest = HeaviestFirst(
                        one, enough=budget.enough, most=budget.paths, since=since
                    )
                for outcome, weight in heaviest or explore(one, most=budget.paths, since=since):
                    paths += 1
                    slack += float(weight) * source.slack
                    if outcome.kind == "cut":
                        source.pruned += float(weight)
                    elif outcome.tokens is None:
                        lost += float(weight)
                        kind = outcome.kind
                        by_kind[kind] = by_kind.get(kind, 0.0) + float(weight)
                        grave = by_kind[kind] > EDGE_PROBABILITY
                        source.find(kind, "violation" if grave else "warning", outcome.message)
                    else:
                        law[outcome.tokens] = law.get(outcome.tokens, 0.0) + float(weight)
                if heaviest is not None:
                    source.pruned += heaviest.rest
                if source.compiled:
                    source.find(BY_SOURCE, "warning", _by_source_note(min(source.compiled).name))
                if real_generator_states() != before:
                    moved = f"{UNTRACKED_RANDOMNESS}: a global generator moved"
                    source.refuse(moved, UntrackedRandomness)
        except DeadlineExpired:
            spent = watch.seconds()
            # The path's part of them, by its part of the wall clock, which is cheap to read.
            took = spent * (monotonic_now() - path_started) / (monotonic_now() - watch.wall)
            if took < max(MIN_HANG_SECONDS, spent / 2, MIN_HANG_FACTOR * self._longest):
                raise OutOfTime(spent, paths) from None
            self.stuck = self._trail(call, source.path, PathOutcome(None, "hangs", "hangs"))
            # No measured time: a result is the same on any machine.
            source.find("hangs", "violation", "did not return before the time limit")
            complete = False
        return ExactLaw(
            law,
            paths,
            source.pruned + slack,
            lost,
            tuple(source.findings.values()),
            complete,
            dict(source.dtypes),
            tuple(ends.values()),
            tuple(by_kind.items()),
        )

    def _trail(self, call: TokenCall, path: Path, outcome: PathOutcome) -> Witness:
        plans = witness_plans(self.source, self._replay_rng)
        return Witness(call, outcome, float(path.weight), plans)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Follow nothing: draws are numbers in the types of the libraries that draw them."""
        self.release()
        with (
            preserve_global_states(),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            intercept_randomness(
                self.source, self._code, shadow_float=False, plain=True
            ) as generator,
        ):
            warnings.simplefilter("ignore")
            self.rng = generator()
            yield
        self.release()


# ``simverify.exact_law``: the law of any function of a random generator, by all of its paths.


MAX_LOST_MASS = 1e-9
"""Probability that may be lost to rounding before a law is not called exact any more."""

_MAX_COUNTED_WAYS = 2**40
"""Up to so many equally likely ways, a float tells how many of them led to an outcome."""

OutcomeLaw = dict[Hashable, Fraction | float]


def exact_law(
    function: Callable[[np.random.Generator], Any],
    *,
    max_paths: int = 200_000,
    seconds: float | None = 60.0,
) -> OutcomeLaw:
    """Return the exact law of what ``function`` returns: each outcome with its probability.

    The function runs once on every path of its own random choices; nothing is sampled. Its
    draws may come from the generator that it is handed, from numpy's and Python's global ones
    and from torch's: all of them are followed.

    Parameters
    ----------
    function
        ``function(rng) -> outcome``. Outcomes are hashable; lists, arrays and tensors become
        tuples, sets become frozensets, and dicts tuples of their items.
    max_paths, seconds
        Budgets: of paths, and of processor seconds (None: no limit).

    Returns
    -------
    dict
        Outcomes, likeliest first. A probability is a ``Fraction`` where all that was drawn
        are equally likely things (integers, shuffles, choices without weights), and a float
        otherwise; they sum to 1 within 1e-9.

    Raises
    ------
    CannotEnumerate
        If a draw is used in a way that cannot be followed; the message names it and the line.
    SimverifyError
        If the function raises on one of its paths, seeds a generator with a constant, returns
        what is not hashable, or a budget ends first.
    UsageError
        If ``function`` is not callable.
    """
    if not callable(function):
        raise UsageError(f"got {function!r}: expected a function of a numpy Generator")
    with Enumeration(function) as enumeration:
        source = enumeration.source

        def call() -> Any:
            outcome = _plain_outcome(function(enumeration.rng), source)
            try:
                hash(outcome)
            except TypeError as error:
                message = f"returned what is not hashable: {error}"
                raise InvalidTokens("unhashable", message) from None
            return outcome, source.ways

        try:
            law = enumeration.run(call, Budget(max_paths, seconds))
        except (TooManyPaths, OutOfTime) as error:
            raise SimverifyError(f"the distribution is incomplete: {error}") from None
    for finding in sorted(law.findings, key=lambda finding: finding.severity != "violation"):
        if finding.severity == "violation" or law.lost:
            raise SimverifyError(f"the function: {finding.message}")
    if not law.complete or law.pruned > MAX_LOST_MASS:
        raise CannotEnumerate(f"a distribution of which {law.pruned:.2g} is lost to rounding")
    total: OutcomeLaw = {}
    paths: Iterable[tuple[Any, float]] = law.probabilities.items()
    for (outcome, ways), weight in paths:
        share: Fraction | float = weight
        if ways is not None and ways <= _MAX_COUNTED_WAYS:
            # Of equally likely ways, counts are whole numbers.
            share = Fraction(round(weight * ways), ways)
        total[outcome] = total.get(outcome, Fraction(0)) + share
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _plain_outcome(value: Any, source: Any) -> Any:
    """Return an outcome as plain values, hashable where its parts are."""
    if isinstance(value, Draw):
        if not value.form.is_whole():
            source.refuse("a continuous draw as the outcome: return what is decided from it")
        return int(value)
    if hasattr(value, "tolist") and not isinstance(value, type):
        if isinstance(value, np.ndarray) and value.dtype == object and is_symbolic(value):
            return tuple(_plain_outcome(x, source) for x in value)
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain_outcome(x, source) for x in value)
    if isinstance(value, set | frozenset):
        return frozenset(_plain_outcome(x, source) for x in value)
    if isinstance(value, dict):
        return tuple(tuple(_plain_outcome(x, source) for x in pair) for pair in value.items())
    return value


# Recorded paths: which draw, which branch, which line.


@dataclass(frozen=True)
class RecordedBranch:
    """One decision on a path.

    ``draw`` numbers the random number that it depends on, from 1 in the order drawn; None
    where it depends on several. ``taken`` is one of ``ways`` branches, of conditional weight
    ``weight``. ``left`` is the interval in which a uniform then lies. ``where`` is the code's
    ``file:line``: where it decides, or where it drew the outcome, or took the winner of a race,
    that is decided when something reads it. Empty if unknown. ``steps``: how many lines of the
    path had run by then, where they are followed.
    """

    kind: DecisionKind
    draw: int | None
    taken: int
    ways: int
    weight: float
    left: tuple[float, float] | None
    where: str
    steps: int = 0


@dataclass(frozen=True)
class RecordedPath:
    """The end of a path: what was emitted, its weight, how much was drawn and decided.

    ``broke``: how the call broke its contract, in words; empty where it kept it. ``steps``: the
    lines that ran, where they are followed.
    """

    tokens: Tokens
    weight: float
    draws: int
    branches: tuple[RecordedBranch, ...]
    broke: str = ""
    steps: tuple[Any, ...] = ()


class LineFollower(Protocol):
    """Follows the lines of code that a path runs, one path at a time."""

    now: list[Any]

    def begin(self) -> None: ...


class PathRecorder(RandomSource):
    """A source that keeps what each path decides, and with ``steps`` the lines that run."""

    def __init__(self, prune: float, *, seed_once: bool, steps: LineFollower | None = None) -> None:
        self._steps = steps  # before a path is begun, as the next line does
        super().__init__(prune, seed_once=seed_once)
        self._followed = False
        self._leaves: dict[Path, RecordedPath] = {}

    def begin(self, path: Path, plan: "list[float | int] | None" = None) -> None:
        """Start a path; the exact tier's check of it on numbers keeps the record."""
        super().begin(path, plan)
        if self._steps is not None:
            self._steps.begin()
        if plan is None:
            self._branches: list[RecordedBranch] = []

    def fork(
        self,
        weights: Sequence[float],
        decided: DecisionKind,
        draw: Atom | UndecidedOutcome | None = None,
        ends: Sequence[float] = (),
    ) -> int:
        number = next((i for i, drawn in enumerate(self.draws, 1) if drawn is draw), None)
        if decided is DecisionKind.OUTCOME and draw is None:
            number = len(self.draws) + 1  # the draw that is being made
        taken = super().fork(weights, decided, draw, ends)
        if self.cut:
            return taken
        left = (ends[taken], ends[taken + 1]) if ends else None
        _, shares = self.path.choices[self.path.position - 1]
        where = site_line(self.reading) or current_user_line()
        ran = 0 if self._steps is None else len(self._steps.now)
        weight, ways = float(shares[taken]), len(shares)
        branch = RecordedBranch(decided, number, taken, ways, weight, left, where, ran)
        self._branches.append(branch)
        return taken

    def handing(self, rng: Any) -> None:
        """Say which generator the code is about to be given.

        A plain one: the exact tier lets the code import things and then begins, or begins
        anew; what was noted before does not count.
        """
        self._followed = isinstance(rng, SymbolicGenerator)
        if not self._followed:
            self._leaves.clear()

    def end(self, tokens: Tokens, broke: str = "") -> None:
        """Note what the path being run emitted; the last run of a path counts."""
        if self._followed and self.plan is None:
            self._leaves[self.path] = RecordedPath(
                tokens,
                float(self.path.weight),
                len(self.draws),
                tuple(self._branches),
                broke,
                () if self._steps is None else tuple(self._steps.now),
            )

    def take(self) -> list[RecordedPath]:
        """Return the leaves noted so far and forget them."""
        leaves, self._leaves = list(self._leaves.values()), {}
        return leaves
