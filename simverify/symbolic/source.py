"""The randomness of one path: its draws, its decisions, its weight, its forks."""

# ruff: noqa: D102 - methods and functions whose name and types say what a docstring would

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NoReturn, cast

import numpy as np

from simverify.symbolic.arrays import defer_winner
from simverify.symbolic.builtins_patched import BuiltinTwins
from simverify.symbolic.forms import DOUBLE_POINTS, DOUBLE_SLACK, SINGLE_POINTS, SINGLE_SLACK
from simverify.symbolic.paths import Path
from simverify.symbolic.provenance import (
    UNTRACKED_RANDOMNESS,
    CannotEnumerate,
    CompiledFunction,
    Finding,
    InstanceTooLarge,
    Severity,
    UntrackedRandomness,
    current_user_line,
    keep_most_severe,
)
from simverify.symbolic.races import (
    Atom,
    CodeSite,
    DecisionKind,
    DeferralSites,
    NarrowedRace,
    PartialProduct,
    Racer,
)
from simverify.symbolic.rounded_races import RoundedRacer
from simverify.symbolic.scalar import Uniform, exponential_from
from simverify.symbolic.streams import DrawSequences, Stream

# Plain numbers for the draws of a path, on which a run takes that path again.


MAX_REJECTIONS = 2000
"""Tries to find numbers that agree with what was decided about products of draws."""

MIDDLE_SHARES = (0.1, 0.9)
"""Where a plain number lies in its interval: float32 code then takes the same side."""


class UndecidedOutcome:
    """One of 0..n-1, not known yet. ``shares``: how likely each is."""

    def __init__(self, weights: Sequence[float]) -> None:
        total = float(sum(weights))
        self.shares = [float(w) / total for w in weights]

    def sample(self, rng: np.random.Generator) -> int:
        return int(rng.choice(len(self.shares), p=self.shares))


def plan_numbers(
    draws: "Sequence[Uniform | int | UndecidedOutcome]",
    products: Sequence[tuple[PartialProduct, float, bool]],
    rng: np.random.Generator,
    part: tuple[float, float],
) -> list[float | int] | None:
    """Return a number for each draw that agrees with all that was decided; None if none is found.

    ``part``: of each uniform's interval, from where to where they lie in it. ``products``: those
    that were decided, with bound and side.
    """

    def number(draw: Uniform | int | UndecidedOutcome) -> float | int:
        if type(draw) is int:
            return draw
        # What the code has not read may be anything.
        if type(draw) is UndecidedOutcome:
            return draw.sample(rng)
        atom = cast("Uniform", draw)
        if isinstance(atom.owner, NarrowedRace):
            if id(atom) not in narrowed:
                narrowed.update(atom.owner.sample_uniforms(rng))
            return narrowed[id(atom)]
        if isinstance(atom.owner, Racer | RoundedRacer):
            return atom.owner.sample_uniform(rng, arrivals)
        return atom.between(rng.uniform(*part))

    for _ in range(MAX_REJECTIONS):
        arrivals: dict[Any, float] = {}
        narrowed: dict[int, float] = {}
        numbers = [number(draw) for draw in draws]
        by_atom = dict(zip(map(id, draws), numbers, strict=True))
        if all(
            (math.prod(by_atom[id(factor)] for factor in product.factors()) < bound) == below
            for product, bound, below in products
        ):
            return numbers
    return None


# Forks of a path: which branch is taken, what is left out, and how a path is cut.


MIN_PATH_WEIGHT = 1e-18
"""Paths of less weight than this end here; their mass is counted as pruned."""

_MAX_EXIT_FORKS = 4_096
"""Forks in which code may come to its end by itself, on a path that is left."""

_SCATTER_FACTOR = 0x9E3779B1
"""Multiples of it are all over the place in their middle bits."""


class PathCut(BaseException):
    """The path's weight vanished: code that may loop for ever loops for ever on some path."""


_MAX_DRAWS_PER_CALL = 2**22
"""Draws of one call, or things to choose from, that are followed one by one."""

_MAX_DRAWS_PER_PATH = 2**18
"""Draws of one path: more take too much memory, and a loop that asks for them may never end."""

_REAL_VALUED_POINTS = (0, 2**23, SINGLE_POINTS, 2**32, 2**52, DOUBLE_POINTS)
"""Of how many points uniforms are that are read as real numbers, and their products (0)."""

_COARSE_END = 8
"""Within so many steps of the end of its grid a probability has a large relative error."""

_COARSE_DTYPES = ("float32", "float16", "bfloat16")
"""Precisions below float64."""


class RandomSource:
    """Hands out symbolic draws along a :class:`Path`, or numbers when a path is replayed.

    ``prune``: conditional weight below which a branch is not run; ``pruned``: the mass of those.
    ``ended``: no path is run. ``cut``: the path is left, and how it ends does not count;
    ``longest``: where the first one was left. ``seed_once``: a constant seed may be set once (a
    step rule may seed itself when it is built). ``at_once``: winners of races and integers out of
    many are decided at once, and not when they are read or compared; ``postponed``: some were not;
    ``sites``: where they wait; ``reading``: where the one that is being read was drawn.
    ``refuses_many``: ``int`` of a draw with many values is refused, not forked;
    ``refuses_arrays``: so is an array that numpy itself makes of draws. ``beyond``: where draws
    come from after the last of a plan; None: a plan has to be long enough. ``signs_zeros``: a draw
    times 0 is decided by its sign, which a run on numbers showed to matter. ``addressed``: draws
    of counter-based generators; ``tensors``: what torch's tensors hold. ``epoch`` counts the runs,
    ``torch_calls`` the calls of torch in them (:func:`total_effort`). ``widest``: the most values
    of an integer that was followed value by value, and where. ``compiled``: the functions that
    ran as source, although numba or MLX compiles them.
    """

    def __init__(self, prune: float, *, seed_once: bool) -> None:
        self.prune = prune
        self.pruned = 0.0
        self.longest = ""
        self.findings: dict[str, Finding] = {}
        self.dtypes: dict[str, str] = {}
        self.seed_once = seed_once
        self.epoch = self.torch_calls = 0
        self.failure: CannotEnumerate | None = None
        self.python_streams: Any = None
        self.tensors: Any = None
        self.sequences = DrawSequences(self)
        self.on_begin: list[Callable[[], None]] = []
        self.at_once = self.postponed = self.signs_zeros = False
        self.sites = DeferralSites()
        self.reading: CodeSite = ()
        self.refuses_many = self.refuses_arrays = True
        self.widest = 0, ""
        self.beyond: np.random.Generator | None = None
        self.builtins = BuiltinTwins()
        self.compiled: set[CompiledFunction] = set()
        self.begin(Path())

    def begin(self, path: Path, plan: "list[float | int] | None" = None) -> None:
        """Start a path; with a ``plan`` its draws are those numbers, in order."""
        self.path, self._out = path, 0
        self.ended = self.cut = False
        self.sites.end_path()
        self.plan = plan
        self.draws: list[Uniform | int | UndecidedOutcome] = []
        self.products: list[tuple[PartialProduct, float, bool]] = []
        self.rarest = 1.0
        self.slack = 0.0
        self._drawn = self._counted = 0
        self._ways = 1
        self.sequences.begin()
        self.epoch += 1
        self.failure = None
        self._chains: dict[tuple[int, int], PartialProduct] = {}
        self.addressed: dict[Hashable, Any] = {}
        for restart in self.on_begin:
            restart()

    def fork(
        self,
        weights: Sequence[float],
        decided: DecisionKind,
        draw: Atom | UndecidedOutcome | None = None,
        ends: Sequence[float] = (),
    ) -> int:
        """Take a branch; weights are conditional, sum to 1 up to rounding, and may be 0.

        ``decided``, ``draw`` and ``ends`` are for a record of the path alone.
        """
        path = self.path
        if self.ended:
            self.refuse("a draw that was kept from a path")
        if self.cut:
            return self._way_out(weights)
        vanished = path.weight < MIN_PATH_WEIGHT
        if vanished or path.is_long():
            self.cut, self.longest = True, self.longest or current_user_line()
            if vanished:
                raise PathCut
            return self._way_out(weights)
        if min(weights) < self.prune:
            weights = [w if w >= self.prune else 0.0 for w in weights]
        weights = tuple(weights)
        if path.position < len(path.choices):
            if path.choices[path.position][1] != weights:
                elsewhere = f"{UNTRACKED_RANDOMNESS}: a repeated path went elsewhere"
                self.refuse(elsewhere, UntrackedRandomness)
        else:
            self.pruned += max(0.0, 1.0 - sum(weights)) * float(path.weight)
        index: int = path.fork(weights)
        return index

    def _way_out(self, weights: Sequence[float]) -> int:
        """Return any branch of a path that does not count; an exception leaves things half done."""
        self._out += 1
        if self._out > _MAX_EXIT_FORKS:
            self._out = 0
            raise PathCut
        ways = [i for i, weight in enumerate(weights) if weight > 0]
        return ways[(self._out * _SCATTER_FACTOR >> 16) % len(ways)]

    def remembers(self) -> bool:
        """Whether draws of this path may come again: a place in a sequence has a name."""
        return bool(self.addressed) or self.sequences.remembers()

    def snapshot(self) -> tuple[Any, ...]:
        """Return what a replay must not change."""
        return self.path, self.draws, self.products, self.slack, self.pruned, self.rarest

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        self.path, self.draws, self.products, self.slack, self.pruned, self.rarest = snapshot

    def uniform(
        self,
        stream: Stream | None = None,
        kind: Hashable = "uniform",
        *,
        one_word: bool = True,
        among: int | None = None,
    ) -> "Uniform | float":
        """Return the next uniform of a stream (a fresh one without a stream).

        ``kind`` and ``one_word``: see :meth:`DrawSequences.next`. ``among``: between how many
        equally likely things it decides, where that is all that it decides.
        """
        new = partial(self._fresh, among)
        if stream is None or stream.key is None:
            return new()
        draw: Uniform | float = self.sequences.next(stream, kind, new, one_word=one_word)
        return draw

    def exponential(self, stream: Stream, kind: Hashable = "exponential") -> Any:

        def new() -> Any:
            u = self._fresh()
            return exponential_from(u) if isinstance(u, Uniform) else -float(np.log(u))

        return self._next_of(stream, kind, new)

    def _next_of(self, stream: Stream, kind: Hashable, new: Callable[[], Any]) -> Any:
        if stream.key is None:
            return new()
        return self.sequences.next(stream, kind, new, one_word=False)

    def pick(self, weights: Sequence[float], stream: Stream, kind: Hashable = "outcome") -> int:
        """Return an outcome in 0..n-1; the weights need not be normalised."""
        kind = (kind, tuple(map(float, weights))) if stream.key is not None else None
        return int(self._next_of(stream, kind, lambda: self._outcome(weights)))

    def pick_later(
        self, weights: Sequence[float], stream: Stream, kind: Hashable, site: CodeSite
    ) -> Any:
        """As :meth:`pick`; the outcome of a fresh stream may wait until the code reads it."""
        if self.at_once or stream.key is not None or self.plan is not None:
            return self.pick(weights, stream, kind)
        self._count()
        outcome = UndecidedOutcome(weights)
        place = len(self.draws)
        self.draws.append(outcome)

        def decide() -> int:
            index = self.fork(outcome.shares, DecisionKind.OUTCOME, outcome)
            self.draws[place] = index
            return index

        return defer_winner(self, decide, site)

    def chain(self, previous: "Uniform | PartialProduct", last: Uniform) -> PartialProduct:
        """Return the product of the two, the same object every time it is formed."""
        link = (id(previous), id(last))
        if link not in self._chains:
            self._chains[link] = PartialProduct(self, previous, last)
        return self._chains[link]

    @property
    def ways(self) -> int | None:
        """Of how many equally likely ways the path is some; None if a draw is not of that kind."""
        return self._ways if self._counted == self._drawn else None

    def is_of_rounding(self) -> bool:
        """Whether so little is left of a draw that rounding may have made the path.

        Bounds on smooth draws are those of real numbers, and the machine's lie a little off. Two
        that are one number of the machine's may leave a path between them that no numbers take,
        as wide as both are off together. A racer that almost never wins may not win for any
        number of the machine's, because the grid is coarse there. Any other path counts as real,
        however unlikely, and so does every path of a random integer, which is compared as it is.
        """
        off = 2 * (SINGLE_SLACK if self.dtypes else DOUBLE_SLACK)
        left = [x for x in self.draws if isinstance(x, Uniform)] + [x for x, *_ in self.products]
        if self.rarest <= _COARSE_END * off:
            return True
        return any(x.high - x.low <= off and x.points in _REAL_VALUED_POINTS for x in left)

    def find(self, kind: str, severity: Severity, message: str) -> None:
        """Record a finding; the first of a kind is kept, or the first violation of it."""
        if self.cut:
            return  # code that was stopped half-way leaves things half done
        keep_most_severe(self.findings, Finding(kind, severity, message))

    def meet(self, dtype: Any) -> None:
        """Note the numpy or torch dtype of numbers that meet a draw, or weigh one."""
        if (name := _dtype_name(dtype)) in _COARSE_DTYPES and name not in self.dtypes:
            self.dtypes[name] = current_user_line()

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        """Stop: ``call`` cannot be followed. The code may swallow it, the path may not."""
        if self.failure is None:
            self.failure = kind(call, current_user_line(), tuple(self.findings.values()))
        raise self.failure

    def make_room(self, count: int) -> None:
        """Refuse to draw, or to choose from, more than memory and time allow to follow."""
        if count > _MAX_DRAWS_PER_CALL:
            self.refuse(f"a random function of {count:,} numbers at once")

    def plan_like_this_path(
        self, rng: np.random.Generator, part: tuple[float, float] = MIDDLE_SHARES
    ) -> "list[float | int] | None":
        """Numbers that take a plain run down the same path, in this ``part`` of each interval."""
        return plan_numbers(self.draws, self.products, rng, part)

    @property
    def constant_seeds(self) -> frozenset[Hashable]:
        """Seeds set on the path, but for a rule that seeds itself when it is built."""
        return self.sequences.constants()

    def _count(self) -> None:
        self._drawn += 1
        if self._drawn > _MAX_DRAWS_PER_PATH:
            call = f"a call that draws more than {_MAX_DRAWS_PER_PATH:,} numbers"
            self.refuse(call, InstanceTooLarge)

    def _fresh(self, among: int | None = None) -> "Uniform | float":
        self._count()
        if among is not None:
            self._counted += 1
            self._ways *= among
        if self.plan is not None:
            return float(self._next_of_plan(self.plan, lambda rng: float(rng.random())))
        atom = Uniform(self)
        self.draws.append(atom)
        return atom

    def _outcome(self, weights: Sequence[float]) -> int:
        self._count()
        outcome = UndecidedOutcome(weights)
        if self.plan is not None:
            return int(self._next_of_plan(self.plan, outcome.sample))
        index = self.fork(outcome.shares, DecisionKind.OUTCOME)
        self.draws.append(index)
        return index

    def _next_of_plan(
        self, plan: list[float | int], sample: Callable[[np.random.Generator], float | int]
    ) -> float | int:
        """Return the plan's number for the next draw; ``sample`` makes one beyond its end."""
        position = len(self.draws)
        if self.beyond is not None and position >= len(plan):
            plan.append(sample(self.beyond))
        self.draws.append(0)
        if position >= len(plan):
            self.refuse(f"{UNTRACKED_RANDOMNESS}: a repeated path drew more", UntrackedRandomness)
        return plan[position]


def refusing_call(source: RandomSource, call: str) -> Callable[..., Any]:
    """Return what stands for a function that cannot be followed."""
    return lambda *args, **kwargs: source.refuse(call)


@lru_cache(maxsize=256)
def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


# Effort: what an enumeration has run so far, as a count, so budgets end alike on any machine.


TORCH_CALLS_PER_RUN = 40
"""So many calls of torch take about as long as a run of a rule without torch."""

SYMBOLIC_CALL_COST = 10
"""A call of torch that draws are followed through counts as so many."""


def total_effort(source: RandomSource) -> float:
    """Return the effort of all runs so far: that of one without torch is 1."""
    return source.epoch + source.torch_calls / TORCH_CALLS_PER_RUN


@contextmanager
def charge_effort_to(payer: RandomSource, source: RandomSource) -> Iterator[None]:
    """Let ``payer`` count as its own what ``source`` runs inside."""
    before = total_effort(source)
    try:
        yield
    finally:
        payer.torch_calls += round(TORCH_CALLS_PER_RUN * (total_effort(source) - before))
