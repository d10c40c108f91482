"""The randomness of one path: what was drawn, what was decided, what it weighed."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from simverify.symbolic.draws.path import Decided
from simverify.symbolic.draws.scalars import Uniform, exponential_of
from simverify.symbolic.draws.several.chains import Chain
from simverify.symbolic.draws.several.sites import Site, Sites
from simverify.symbolic.draws.several.winners import postponed
from simverify.symbolic.draws.values.machine import (
    DOUBLE_POINTS,
    DOUBLES_MOVE,
    SINGLE_POINTS,
    SINGLES_MOVE,
)
from simverify.symbolic.enumeration.forks import Forks
from simverify.symbolic.enumeration.numbers import MIDDLE, Undecided, numbers_along
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.errors import (
    UNTRACKED,
    CannotEnumerate,
    Finding,
    Severity,
    TooLarge,
    Untracked,
    keep_gravest,
)
from simverify.symbolic.stand_ins.names import Builtins
from simverify.symbolic.streams import Sequences, Stream
from simverify.symbolic.whose import users_line

_MOST_AT_ONCE = 2**22
"""Draws of one call, or things to choose from, that are followed one by one."""

_MOST_DRAWS = 2**18
"""Draws of one path: more take too much memory, and a loop that asks for them may never end."""

_NOT_INTEGERS = (0, SINGLE_POINTS, DOUBLE_POINTS)
"""Of how many points uniforms are that are read as real numbers, and their products (0)."""

_COARSER = ("float32", "float16", "bfloat16")
"""Precisions below float64."""


class Source(Forks):
    """Hands out symbolic draws along a :class:`Path`, or numbers when a path is replayed.

    ``prune``: see :class:`.Forks`. ``seed_once`` tells whether a constant seed may be set once (a
    step rule may seed itself when it is built). ``at_once``: winners of races and integers out of
    many are decided at once, and not when they are read or compared; ``postponed``: some were
    not; ``sites``: where they wait; ``reading``: where the one that is being read was drawn.
    ``refuses_many``: ``int`` of a draw with many values is
    refused, not forked; ``refuses_arrays``: so is an array that numpy itself makes of draws.
    ``beyond``: where the draws after the last of a plan come from; None: a plan has to be long
    enough.
    ``signs_zeros``: a draw times 0 is decided by its sign, which a run on numbers showed to matter.
    ``addressed``: draws of counter-based generators; ``tensors``: what torch's tensors hold.
    ``epoch`` counts the runs, ``torch_calls`` the calls of torch in them (:mod:`.effort`).
    ``widest``: the most values of an integer that was followed value by value, and where.
    """

    def __init__(self, prune: float, *, seed_once: bool) -> None:
        super().__init__(prune)
        self.findings: dict[str, Finding] = {}
        self.dtypes: set[str] = set()
        self.seed_once = seed_once
        self.epoch = self.torch_calls = 0
        self.failure: CannotEnumerate | None = None
        self.python_streams: Any = None
        self.tensors: Any = None
        self.sequences = Sequences(self)
        self.on_begin: list[Callable[[], None]] = []
        self.at_once = self.postponed = self.signs_zeros = False
        self.sites = Sites()
        self.reading: Site = ()
        self.refuses_many = self.refuses_arrays = True
        self.widest = 0, ""
        self.beyond: np.random.Generator | None = None
        self.builtins = Builtins()
        self.begin(Path())

    def begin(self, path: Path, plan: "list[float | int] | None" = None) -> None:
        """Start a path; with a ``plan`` its draws are those numbers, in order."""
        self.begin_forks(path)
        self.sites.end_path()
        self.plan = plan
        self.draws: list[Uniform | int | Undecided] = []
        self.products: list[tuple[Chain, float, bool]] = []
        self.slack = 0.0
        self._drawn = self._counted = 0
        self._ways = 1
        self.sequences.begin()
        self.epoch += 1
        self.failure = None
        self._chains: dict[tuple[int, int], Chain] = {}
        self.addressed: dict[Hashable, Any] = {}
        for restart in self.on_begin:
            restart()

    def remembers(self) -> bool:
        """Whether draws of this path may come again: a place in a sequence has a name."""
        return bool(self.addressed) or self.sequences.remembers()

    def snapshot(self) -> tuple[Any, ...]:
        """Return what a replay must not change."""
        return self.path, self.draws, self.products, self.slack, self.pruned

    def restore(self, kept: tuple[Any, ...]) -> None:
        """Return to a snapshot."""
        self.path, self.draws, self.products, self.slack, self.pruned = kept

    def uniform(
        self,
        stream: Stream | None = None,
        kind: Hashable = "uniform",
        *,
        one_word: bool = True,
        among: int | None = None,
    ) -> "Uniform | float":
        """Return the next uniform of a stream (a fresh one without a stream).

        ``kind`` and ``one_word``: see :meth:`.Sequences.next`. ``among``: between how many
        equally likely things it decides, where that is all that it decides.
        """
        new = partial(self._fresh, among)
        if stream is None or stream.key is None:
            return new()
        draw: Uniform | float = self.sequences.next(stream, kind, new, one_word=one_word)
        return draw

    def exponential(self, stream: Stream, kind: Hashable = "exponential") -> Any:
        """Return the next standard exponential of a stream."""
        if stream.key is None:
            return _minus_log(self._fresh())
        new = lambda: _minus_log(self._fresh())  # noqa: E731
        return self.sequences.next(stream, kind, new, one_word=False)

    def pick(self, weights: Sequence[float], stream: Stream, kind: Hashable = "outcome") -> int:
        """Return an outcome in 0..n-1; the weights need not be normalised."""
        if stream.key is None:
            return self._outcome(weights)
        kind = (kind, tuple(map(float, weights)))
        new = lambda: self._outcome(weights)  # noqa: E731
        return int(self.sequences.next(stream, kind, new, one_word=False))

    def pick_later(
        self, weights: Sequence[float], stream: Stream, kind: Hashable, site: Site
    ) -> Any:
        """As :meth:`pick`; the outcome of a fresh stream may wait until the code reads it."""
        if self.at_once or stream.key is not None or self.plan is not None:
            return self.pick(weights, stream, kind)
        self._count()
        outcome = Undecided(weights)
        place = len(self.draws)
        self.draws.append(outcome)

        def decide() -> int:
            index = self.fork(outcome.shares, Decided.OUTCOME, outcome)
            self.draws[place] = index
            return index

        return postponed(self, decide, site)

    def chain(self, previous: "Uniform | Chain", last: Uniform) -> Chain:
        """Return the product of the two, the same object every time it is formed."""
        link = (id(previous), id(last))
        if link not in self._chains:
            self._chains[link] = Chain(self, previous, last)
        return self._chains[link]

    @property
    def ways(self) -> int | None:
        """Of how many equally likely ways the path is some; None if a draw is not of that kind."""
        return self._ways if self._counted == self._drawn else None

    def is_of_rounding(self) -> bool:
        """Whether so little is left of a draw that rounding may have made the path.

        Bounds on smooth draws are those of real numbers, and the machine's lie a little off. Two
        that are one number of the machine's may leave a path between them that no numbers take,
        as wide as both are off together. No other path is of rounding, however little it weighs,
        nor is one that a random integer leads to: integers are compared as they are.
        """
        off = 2 * (SINGLES_MOVE if self.dtypes else DOUBLES_MOVE)
        left = [x for x in self.draws if isinstance(x, Uniform)] + [x for x, *_ in self.products]
        return any(x.high - x.low <= off and x.points in _NOT_INTEGERS for x in left)

    def find(self, kind: str, severity: Severity, message: str) -> None:
        """Record a finding; the first of a kind is kept, or the first violation of it."""
        if self.cut:
            return  # code that was stopped half-way leaves things half done
        keep_gravest(self.findings, Finding(kind, severity, message))

    def meet(self, dtype: Any) -> None:
        """Note the numpy or torch dtype of numbers that meet a draw, or weigh one."""
        if (name := _name_of(dtype)) in _COARSER:
            self.dtypes.add(name)

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        """Stop: ``call`` cannot be followed. The code may swallow it, the path may not."""
        if self.failure is None:
            self.failure = kind(call, users_line(), tuple(self.findings.values()))
        raise self.failure

    def make_room(self, count: int) -> None:
        """Refuse to draw, or to choose from, more than memory and time allow to follow."""
        if count > _MOST_AT_ONCE:
            self.refuse(f"a random function of {count:,} numbers at once")

    def plan_like_this_path(
        self, rng: np.random.Generator, part: tuple[float, float] = MIDDLE
    ) -> "list[float | int] | None":
        """Numbers that take a plain run down the path just run; None if none was found.

        ``part``: of each uniform's interval, from where to where they lie in it.
        """
        return numbers_along(self.draws, self.products, rng, part)

    @property
    def constant_seeds(self) -> frozenset[Hashable]:
        """Seeds set on the path, but for a rule that seeds itself when it is built."""
        return self.sequences.constants()

    def _count(self) -> None:
        self._drawn += 1
        if self._drawn > _MOST_DRAWS:
            self.refuse(f"a call that draws more than {_MOST_DRAWS:,} numbers", TooLarge)

    def _fresh(self, among: int | None = None) -> "Uniform | float":
        self._count()
        if among is not None:
            self._counted += 1
            self._ways *= among
        if self.plan is not None:
            if self.beyond is not None and len(self.draws) >= len(self.plan):
                self.plan.append(float(self.beyond.random()))
            return float(self._next_of_plan(self.plan))
        atom = Uniform(self)
        self.draws.append(atom)
        return atom

    def _outcome(self, weights: Sequence[float]) -> int:
        self._count()
        outcome = Undecided(weights)
        if self.plan is not None:
            if self.beyond is not None and len(self.draws) >= len(self.plan):
                self.plan.append(outcome.sample(self.beyond))
            return int(self._next_of_plan(self.plan))
        index = self.fork(outcome.shares, Decided.OUTCOME)
        self.draws.append(index)
        return index

    def _next_of_plan(self, plan: "list[float | int]") -> "float | int":
        position = len(self.draws)
        self.draws.append(0)
        if position >= len(plan):
            self.refuse(f"{UNTRACKED}: a repeated path drew more", Untracked)
        return plan[position]


@lru_cache(maxsize=256)
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _minus_log(u: Any) -> Any:
    return exponential_of(u) if isinstance(u, Uniform) else -float(np.log(u))
