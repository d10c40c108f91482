"""Exponential races: which of several E_i / w_i comes first, decided two at a time.

The known order of the racers is kept as a forest in which a parent came before its
children. Exponentials have no memory, so given its parent a subtree's first arrival is a
fresh exponential whose rate is the subtree's total; any two subtrees under one parent are
then compared with weights in proportion to their totals. Every question about the order
(argmin, sort, top-k) is answered exactly, and an answer never changes.

Where the same exponentials are raced again with other weights, what the forest knows becomes
inequalities between them, and the rest is computed from those (:class:`SharedNoise`).
"""

# ruff: noqa: D102 - what a protocol asks for is documented where it is done

__simverify_role__ = "stand-in"


import functools
import itertools
import math
import sys
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, cast

import numpy as np

from simverify.symbolic.forms import MAX_RACE_BLUR
from simverify.symbolic.provenance import (
    CannotEnumerate,
    InstanceTooLarge,
    is_boundary,
    is_users_module,
)
from simverify.symbolic.rounded_races import (
    RoundedRace,
    StepLaw,
    constant_law,
    step_law,
    winning_weights,
)

if TYPE_CHECKING:
    from types import CodeType, FrameType


# Deferral: where in the code a result waits until it is read, and where it need not.
#
# Vectorised code draws a token for every slot and uses one of them: decided at once, the others
# would multiply the paths. Code that reads each of its tokens loses by waiting, because all that
# it computes from an unread one is followed element by element. Both are exact, so which of the
# two a place in the code gets is learned: on the first instance results wait everywhere, and
# from the next one on only where one was left unread.


SITE_DEPTH = 3
"""Functions of the code, from the innermost out, that tell one place from another: one that
draws may be called for a token that is used and for one that is not."""

CodeSite = tuple[tuple["CodeType", int], ...]
"""Functions, and how far each is."""


def site_line(site: CodeSite) -> str:
    """Return the ``file:line`` of the innermost function of a place; "" of none."""
    if not site:
        return ""
    code, offset = site[0]
    line = next((n for first, end, n in code.co_lines() if first <= offset < end), None)
    return "" if line is None else f"{code.co_filename}:{line}"


class DeferredResult(Protocol):
    """A result that the code may not have asked for yet."""

    @property
    def is_read(self) -> bool: ...


class DeferralSites:
    """What is known of the places, from path to path."""

    def __init__(self) -> None:
        self._read: set[CodeSite] = set()
        self._unread: set[CodeSite] = set()
        self._at_once: frozenset[CodeSite] = frozenset()
        self._waiting: list[tuple[CodeSite, DeferredResult]] = []

    def waits_at(self, site: CodeSite) -> bool:
        """Whether a result of that place waits."""
        return site not in self._at_once

    def add(self, site: CodeSite, result: DeferredResult) -> None:
        """Note a result that waits on the path that is run."""
        self._waiting.append((site, result))

    def end_path(self) -> None:
        """See which results of the path were read."""
        for site, result in self._waiting:
            (self._read if result.is_read else self._unread).add(site)
        self._waiting.clear()

    def learn(self) -> None:
        """Let nothing wait any more where all was read; not between paths that share choices."""
        self.end_path()
        self._at_once = frozenset(self._read - self._unread)


def current_site() -> CodeSite:
    """Return the place in the code under audit that is run."""
    calls: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(calls) < SITE_DEPTH:
        if is_boundary(frame.f_code):
            break
        if is_users_module(frame.f_globals.get("__name__", "")):
            calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls)


# The interface of a path, as its draws see it, and what a decision is made of.
#
# Draws know no more of the run around them: :class:`~simverify.symbolic.source.RandomSource`
# is such a path, and builds on the draws.


class DecisionKind(Enum):
    """What a fork of the path decides, in the words that a replay shows."""

    BOUND = "a comparison with a number"
    OUTCOME = "an outcome of a draw"
    RACE = "a race of two draws"
    SEVERAL = "a comparison of several draws"


class DrawPath(Protocol):
    """Where draws are decided, see :class:`~simverify.symbolic.source.RandomSource`."""

    epoch: int
    slack: float
    at_once: bool
    postponed: bool
    signs_zeros: bool
    sites: DeferralSites
    reading: CodeSite
    refuses_many: bool
    refuses_arrays: bool
    widest: tuple[int, str]
    products: list[Any]
    """Those that were decided, with bound and side."""
    rarest: float
    """The probability of the least likely race winner on this path."""

    def fork(
        self,
        weights: Sequence[float],
        decided: DecisionKind,
        draw: "Atom | None" = None,
        ends: Sequence[float] = (),
    ) -> int:
        """Take a branch; weights are conditional.

        ``decided``: by what. ``draw``: the one draw that it depends on; branch i then leaves it
        between ``ends[i]`` and ``ends[i + 1]``, if those are given.
        """

    def chain(self, previous: Any, last: Any) -> Any: ...
    def meet(self, dtype: Any) -> None: ...
    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn: ...


class Atom(Protocol):
    """A uniform, or a product of uniforms, known by now to lie in [low, high).

    ``owner`` is the race or product that it takes part in, once one was decided. A uniform
    (``single``) is one of ``points`` multiples of their inverse.
    """

    owner: Any
    points: int

    @property
    def single(self) -> bool: ...
    @property
    def source(self) -> DrawPath: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    def check_epoch(self) -> None: ...
    def span(self) -> tuple[int, int]: ...
    def split(self, bound: float) -> bool: ...
    def locate(self, cuts: list[float]) -> int: ...


# Products of independent uniforms, compared with numbers one factor after another.
#
# Write each factor as exp(-E). The k-th partial product is exp(-S_k), S_k = E_1 + .. + E_k,
# and given all earlier comparisons S_k has density exp(-s) g(s) with g piecewise polynomial,
# so a comparison of ``u1 * u2 * .. * uk`` with a number has an exact weight.


Coefficients = tuple[float, ...]
"""A polynomial, constant first."""

DensityPiece = tuple[float, float, Coefficients]
"""``g`` on [start, end)."""


class PartialProduct:
    """A partial product v = previous * last, v = exp(-S) in (0, 1); acts as an atom.

    ``low`` and ``high`` bound v. A comparison that splits it owns its factors: they can no
    longer be split alone, because they are no longer independent.
    """

    single = False
    points = 0

    __slots__ = ("_high", "_pieces", "last", "low", "owner", "previous", "source")

    def __init__(self, source: DrawPath, previous: Atom, last: Atom) -> None:
        self.source = source
        self.previous = previous
        self.last = last
        self.owner: object | None = None
        self._pieces: list[DensityPiece] | None = None
        self.low = 0.0
        self._high = 1.0

    @property
    def high(self) -> float:
        return min(self._high, self.previous.high)

    def factors(self) -> list[Atom]:
        """Return the uniforms in the product, in order."""
        previous = self.previous
        before = previous.factors() if isinstance(previous, PartialProduct) else [previous]
        return [*before, self.last]

    def split(self, bound: float) -> bool:
        if self.owner is not None:
            self.source.refuse("a product of draws that was compared after a longer one")
        pieces = self._density()
        cut = -math.log(bound)
        beyond, within = _density_mass(pieces, cut, math.inf), _density_mass(pieces, 0.0, cut)
        total = beyond + within
        shares = beyond / total, within / total
        below = self.source.fork(shares, DecisionKind.BOUND) == 0
        keep = (cut, math.inf) if below else (0.0, cut)
        self._pieces = _restrict_density(pieces, *keep, beyond if below else within)
        if below:
            self._high = bound
        else:
            self.low = bound
        self.source.products.append((self, bound, below))
        return below

    def check_epoch(self) -> None:
        self.last.check_epoch()

    def span(self) -> NoReturn:
        self.source.refuse("the rounding of a product or sum of draws")

    def locate(self, cuts: list[float]) -> NoReturn:
        self.source.refuse("the integer part of a product of draws")

    def _density(self) -> list[DensityPiece]:
        if self._pieces is None:
            for link in (self.previous, self.last):
                if link.owner is not None:
                    self.source.refuse("a product of draws that were already used together")
            if self.last.low > 0 or self.last.high < 1:
                self.source.refuse("a product with a draw that was compared before")
            self._pieces = _add_exponential(_density_pieces(self.previous))
            self.previous.owner = self
            self.last.owner = self
        return self._pieces


def _density_pieces(link: Atom) -> list[DensityPiece]:
    if isinstance(link, PartialProduct):
        return link._density()
    end = math.inf if link.low <= 0 else -math.log(link.low)
    return [(-math.log(link.high), end, (1 / (link.high - link.low),))]


def _add_exponential(pieces: list[DensityPiece]) -> list[DensityPiece]:
    """Add a fresh exponential: the new g at s is the integral of the old one up to s."""
    out: list[DensityPiece] = []
    total = 0.0
    for start, end, g in pieces:
        if out and out[-1][1] < start:
            out.append((out[-1][1], start, (total,)))
        integral = (0.0, *(c / (i + 1) for i, c in enumerate(g)))
        integral = (total - _polynomial_at(integral, start), *integral[1:])
        out.append((start, end, integral))
        if end < math.inf:
            total = _polynomial_at(integral, end)
    if out[-1][1] < math.inf:
        out.append((out[-1][1], math.inf, (total,)))
    return out


def _restrict_density(
    pieces: list[DensityPiece], low: float, high: float, mass: float = 1.0
) -> list[DensityPiece]:
    """Return what is left of a density between two ends, divided by its mass."""
    return [
        (max(start, low), min(end, high), tuple(c / mass for c in g))
        for start, end, g in pieces
        if max(start, low) < min(end, high)
    ]


def _density_mass(pieces: list[DensityPiece], low: float, high: float) -> float:
    inside = _restrict_density(pieces, low, high)
    return math.fsum(_tail_integral(g, start) - _tail_integral(g, end) for start, end, g in inside)


def _tail_integral(g: Coefficients, s: float) -> float:
    """Integral of exp(-t) g(t) from s to infinity: exp(-s) times g + g' + g'' + ..."""
    if s == math.inf:
        return 0.0
    total = 0.0
    while g:
        total += _polynomial_at(g, s)
        g = tuple(i * c for i, c in enumerate(g))[1:]
    return math.exp(-s) * total


def _polynomial_at(g: Coefficients, s: float) -> float:
    return functools.reduce(lambda value, c: value * s + c, reversed(g), 0.0)


# One noise that is raced several times, each time with other weights.
#
# What is known about independent standard exponentials after such races is a list of inequalities
# ``E_c >= k E_p``: the loser c came after the winner p, in the scale of that race. Together they
# are a cone, and its mass is the probability of all of them. An exponential that beat nobody only
# has lower bounds, which are integrated away: it is above all of them with probability
# exp(-max k x). What is left is the integral of exp(-h) over a cone in the few coordinates that won
# somewhere, where h is linear on each of finitely many pieces. On a piece with generators g_1..g_m
# it is |det(g_1, .., g_m)| / (h(g_1) .. h(g_m)), a rational function of the weights: nothing is
# approximated.


MAX_CONES = 500
"""Pieces of a cone, beyond which nothing is computed."""

ConeGenerator = tuple[float, ...]
Cone = list[ConeGenerator]


class TooManyCones(Exception):
    """The noise was raced too often, and between too many, for its law to be computed."""


class ArrivalInequality(NamedTuple):
    """What one decision tells: ``E_late >= times * E_early``."""

    early: Hashable
    late: Hashable
    times: float


class SharedNoise:
    """What is known of some exponentials, by the inequalities between them."""

    def __init__(self, known: Iterable[ArrivalInequality] = ()) -> None:
        self.known = list(known)

    def masses(self, options: Sequence[Sequence[ArrivalInequality]]) -> list[float]:
        """Return the probability of what is known together with each of the options."""
        return [_cone_mass(_numbered_inequalities([*self.known, *more])) for more in options]

    def learn(self, more: Iterable[ArrivalInequality]) -> None:
        """Note what was decided; what is known already need not be kept twice."""
        self.known = list(dict.fromkeys([*self.known, *more]))

    def sample(self, rng: np.random.Generator) -> dict[Hashable, float]:
        """Draw all exponentials that are known of, on condition of what is known."""
        law = _ConeLaw(self.known)
        piece = int(rng.choice(len(law.masses), p=law.masses / law.masses.sum()))
        far = rng.exponential(size=len(law.winners)) / law.heights[piece]
        x = far @ law.generators[piece]
        samples: dict[Hashable, float] = dict(zip(law.winners, x.tolist(), strict=True))
        for loser, bounds in law.bounds.items():
            samples[loser] = max(k * float(x[i]) for i, k in bounds.items()) + rng.exponential()
        return samples


class _ConeLaw:
    """The pieces of the cone of some inequalities, simplicial cones on which h is linear.

    ``winners``: its m coordinates, those that came before another. ``bounds``: for each of the
    others, the largest factor by coordinate. ``generators``: float64 (pieces, m, m), a row each;
    ``heights``: h at them, (pieces, m); ``masses``: the integrals of exp(-h), (pieces,).
    """

    def __init__(self, known: Sequence[ArrivalInequality]) -> None:
        self.winners = list(dict.fromkeys(after.early for after in known))
        place = {winner: i for i, winner in enumerate(self.winners)}
        size = len(place)
        self.bounds: dict[Hashable, dict[int, float]] = {}
        cones: list[Cone] = [[tuple(float(i == j) for j in range(size)) for i in range(size)]]
        for early, late, times in known:
            i = place[early]
            if late in place:
                cones, _ = _split_cones(cones, place[late], 1.0, i, times)
            else:
                bounds = self.bounds.setdefault(late, {})
                bounds[i] = max(times, bounds.get(i, 0.0))
        # Where the largest of several bounds is another one, h bends.
        for bounds in self.bounds.values():
            factors = list(bounds.items())
            for at, (i, k) in enumerate(factors):
                for j, other in factors[at + 1 :]:
                    above, below = _split_cones(cones, i, k, j, other)
                    cones = above + below
        self.generators = np.array(cones, dtype=np.float64).reshape(-1, size, size)
        self.heights = self.generators.sum(axis=2)
        for bounds in self.bounds.values():
            scaled = self.generators[:, :, list(bounds)] * list(bounds.values())
            self.heights += scaled.max(axis=2)
        self.masses = np.abs(np.linalg.det(self.generators)) / self.heights.prod(axis=1)


@functools.lru_cache(maxsize=2**15)
def _cone_mass(known: tuple[ArrivalInequality, ...]) -> float:
    """Return the mass of a cone; every path that begins alike asks for it again."""
    return math.fsum(_ConeLaw(known).masses.tolist())


def _numbered_inequalities(known: Sequence[ArrivalInequality]) -> tuple[ArrivalInequality, ...]:
    """Return inequalities with numbers for what they are between, in order of appearance."""
    numbers: dict[Hashable, int] = {}
    for after in known:
        numbers.setdefault(after.early, len(numbers))
        numbers.setdefault(after.late, len(numbers))
    return tuple(ArrivalInequality(numbers[x], numbers[y], times) for x, y, times in known)


def _split_cones(
    cones: list[Cone], i: int, a: float, j: int, b: float
) -> tuple[list[Cone], list[Cone]]:
    """Return the parts of cones in which ``a x_i >= b x_j``, and those in which it is less."""
    above: list[Cone] = []
    below: list[Cone] = []
    left = [[(g, a * g[i] - b * g[j]) for g in cone] for cone in cones]
    while left:
        sided = left.pop()
        high = next((n for n, (_, side) in enumerate(sided) if side > 0), None)
        low = next((n for n, (_, side) in enumerate(sided) if side < 0), None)
        if high is None or low is None:
            (above if low is None else below).append([g for g, _ in sided])
        else:
            # The edge between a generator on either side is cut where it crosses.
            (g, up), (f, down) = sided[high], sided[low]
            crossing = [up * y - down * x for x, y in zip(g, f, strict=True)]
            total = math.fsum(crossing)
            middle = (tuple(x / total for x in crossing), 0.0)
            left.append([*sided[:low], middle, *sided[low + 1 :]])
            left.append([*sided[:high], middle, *sided[high + 1 :]])
        if len(above) + len(below) + len(left) > MAX_CONES:
            raise TooManyCones
    return above, below


# The race itself: racers, the forest of what is known, one decision.


RATE_TOLERANCE = 1e-9


class Racer:
    """One exponential, or that of 1 - u (``flip``), in the forest until it has a ``noise``."""

    __slots__ = ("children", "flip", "noise", "parent", "rate", "total")

    def __init__(self, rate: float, flip: bool) -> None:
        self.rate = rate
        self.total = rate
        self.flip = flip
        self.parent: Racer | None = None
        self.children: list[Racer] = []
        self.noise: SharedNoise | None = None

    def line(self) -> "list[Racer]":
        """Return the racer, its parent, and so on to the root."""
        line, node = [self], self
        while node.parent is not None:
            node = node.parent
            line.append(node)
        return line

    def rescale(self, factor: float) -> None:
        self.rate *= factor
        self.total *= factor
        for child in self.children:
            child.rescale(factor)

    def sample_uniform(self, rng: "np.random.Generator", arrivals: "dict[Racer, float]") -> float:
        """Draw a u that agrees with all that is known; ``arrivals`` are those drawn so far."""
        if self.noise is not None:
            if self not in arrivals:
                arrivals.update(cast("dict[Racer, float]", self.noise.sample(rng)))
            return self._uniform(arrivals[self])
        for racer in reversed(self.line()):
            if racer not in arrivals:
                start = 0.0 if racer.parent is None else arrivals[racer.parent]
                arrivals[racer] = start + rng.exponential() / racer.total
        return self._uniform(arrivals[self] * self.rate)

    def known(self) -> "list[ArrivalInequality]":
        """Return what is known of it and of all that were compared with it."""
        if self.noise is not None:
            return self.noise.known
        relations, waiting = [], [self.line()[-1]]
        while waiting:
            early = waiting.pop()
            waiting += early.children
            relations += [
                ArrivalInequality(early, late, late.rate / early.rate) for late in early.children
            ]
        return relations

    def _uniform(self, e: float) -> float:
        return -math.expm1(-e) if self.flip else math.exp(-e)


def enter_race(source: "DrawPath", atom: "Atom", rate: float, flip: bool) -> Racer:
    """Return the racer of ``atom``, made at its first race."""
    atom.check_epoch()
    if isinstance(racer := atom.owner, Racer):
        if racer.flip != flip:
            source.refuse("a race of u against one of 1 - u")
        return racer
    if atom.owner is not None or atom.low > 0 or atom.high < 1:
        source.refuse("a comparison of two draws, one of which was compared with a number")
    atom.owner = racer = Racer(rate, flip)
    return racer


def arrives_first(source: "DrawPath", a: Racer, rate_a: float, b: Racer, rate_b: float) -> bool:
    """Whether E_a / rate_a < E_b / rate_b, forking if it is not known yet."""
    if not _align_time_scales(a, rate_a, b, rate_b):
        return _decide_first_of_noise(source, [a, b], [rate_a, rate_b]) == 0
    while True:
        line_a, line_b = a.line(), b.line()
        if a in line_b:
            return True
        if b in line_a:
            return False
        while line_a and line_b and line_a[-1] is line_b[-1]:
            line_a.pop()
            line_b.pop()
        x, y = line_a[-1], line_b[-1]
        both = x.total + y.total
        x_first = source.fork((x.total / both, y.total / both), DecisionKind.RACE) == 0
        winner, loser = (x, y) if x_first else (y, x)
        if loser.parent is not None:
            loser.parent.children.remove(loser)
        _attach_loser(winner, loser)


def decide_first(elements: "list[Any]", *, largest: bool) -> int | None:
    """Index of the largest or smallest of draws and numbers, by one fork with a branch for each.

    None, and nothing is decided, unless the draws are of one law, and race to come first, and
    no number can win; they are fresh, or some were raced before, with other weights.
    """
    draws = [(i, x) for i, x in enumerate(elements) if hasattr(x, "form")]
    if any(x.has_steps() for _, x in draws):
        return decide_rounded(elements, largest=largest)
    numbers = [x for x in elements if not hasattr(x, "form")]
    # What races alone: nothing is known of it but how it came out in races.
    apart = {
        id(x.atom)
        for _, x in draws
        if isinstance(x.atom.owner, Racer | None)
        and (x.atom.low, x.atom.high) == (0, 1)
        and not hasattr(x.atom, "last")
    }
    narrowed = {
        id(x.atom) for _, x in draws if x.atom.single and x.atom.owner is None and not x.has_steps()
    }
    fresh = len(apart) >= max(2, len(draws))
    if not fresh and len(narrowed) < max(2, len(draws)):
        return None
    try:
        entries = [x.form.race() for _, x in draws]
    except OverflowError:
        return None
    families = {
        (family, direction, x.form.flip)
        for (family, _, direction), (_, x) in zip(entries, draws, strict=True)
    }
    rates = [rate for _, rate, _ in entries]
    sense = -1 if largest else 1
    if len(families) > 1 or entries[0][2] != sense or not all(0 < x < math.inf for x in rates):
        return None
    raced = any(x.atom.owner is not None for _, x in draws)
    if raced and _share_time_scale([x.atom.owner for _, x in draws], rates):
        return None  # two at a time: much of the order may be known
    ranges = [x.range() for _, x in draws]
    if largest:
        beaten = all(c <= max(low for low, _ in ranges) for c in numbers)
    else:
        beaten = all(c >= min(high for _, high in ranges) for c in numbers)
    if not beaten:
        return None
    source = draws[0][1].source
    total = math.fsum(rates)
    blurs = (x.machine.blur * r for (_, x), r in zip(draws, rates, strict=True))
    if math.fsum(blurs) > MAX_RACE_BLUR * total:
        if (first := decide_rounded(elements, largest=largest)) is not None:
            return first
        source.refuse("a race of draws that rounding swamps")
    source.slack += math.fsum(x.form.slack for _, x in draws)
    if not fresh:
        atoms = [x.atom for _, x in draws]
        return draws[decide_narrowed(source, atoms, rates, flip=draws[0][1].form.flip)][0]
    racers = [
        enter_race(source, x.atom, rate, x.form.flip)
        for (_, x), rate in zip(draws, rates, strict=True)
    ]
    if raced:
        won = _decide_first_of_noise(source, racers, rates)
    else:
        won = source.fork([rate / total for rate in rates], DecisionKind.SEVERAL)
        source.rarest = min(source.rarest, rates[won] / total)
        for loser in racers[:won] + racers[won + 1 :]:
            _attach_loser(racers[won], loser)
    return draws[won][0]


def decide_rounded(elements: "list[Any]", *, largest: bool) -> int | None:
    """Index of the first of the largest or smallest of rounded draws and numbers, by one fork.

    None, and nothing is decided, where draws were compared before or have too many values, or so
    few that they are run one by one: then more can be asked of them later.
    """
    draws = [x for x in elements if hasattr(x, "form")]
    fresh = all(x.atom.single and x.atom.owner is None and not x.settles() for x in draws)
    if not fresh or len({id(x.atom) for x in draws}) < len(draws):
        return None
    laws: list[StepLaw] = []
    for x in elements:
        law = step_law(x.machine, *x.grid()[1:]) if hasattr(x, "form") else constant_law(x)
        if law is None:
            return None
        laws.append(law)
    weights = winning_weights(laws, largest=largest)
    total = math.fsum(weights)
    won: int = draws[0].source.fork([x / total for x in weights], DecisionKind.SEVERAL)
    atoms = [x.atom if hasattr(x, "form") else None for x in elements]
    RoundedRace(laws, atoms, won, largest=largest)
    return won


# A race of exponentials whose uniforms were compared with numbers before.
#
# Each uniform is then uniform on what is left of it, [low, high), and E = -log u passes t with
# probability (exp(-t) - low) / (high - low) inside. Who comes first is an integral over time of
# products of these, smooth between the times at which one of them may begin or must have come.


_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(32)
_MAX_DECAY = 40.0
"""Decay of an integrand over one piece, which the nodes above integrate to the last bit."""

_LAST_DECAY = 740.0
"""What is left of an exponential after so long is no float."""

_MASS_TOLERANCE = 1e-9


class NarrowedRace:
    """Which of some narrowed uniforms came first; nothing else can be asked of them then."""

    def __init__(
        self, atoms: "Sequence[Atom]", rates: Sequence[float], won: int, *, flip: bool
    ) -> None:
        self._atoms, self._rates, self._won, self._flip = atoms, rates, won, flip
        self._spans = _spans_left(atoms, flip=flip)

    def sample_uniforms(self, rng: "np.random.Generator") -> "dict[int, float]":
        """Draw uniforms that agree with the winner, by the identity of their atoms."""
        times, masses = _narrowed_arrivals(self._spans, self._rates)
        time = rng.choice(times, p=masses[self._won] / masses[self._won].sum())
        low, high = np.array(self._spans).T
        u = np.exp(-np.array(self._rates) * time)
        later = low + (np.minimum(high, u) - low) * rng.random(len(u))
        later[self._won] = u[self._won]
        uniforms = (1 - later if self._flip else later).tolist()
        return dict(zip(map(id, self._atoms), uniforms, strict=True))


def _spans_left(atoms: "Sequence[Atom]", *, flip: bool) -> tuple[tuple[float, float], ...]:
    """Return what is left of each exp(-E): the uniform, or, flipped, what it lacks to 1."""
    return tuple((1 - x.high, 1 - x.low) if flip else (x.low, x.high) for x in atoms)


def decide_narrowed(
    source: "DrawPath", atoms: "Sequence[Atom]", rates: Sequence[float], *, flip: bool
) -> int:
    """Return which E_i / rate_i comes first, of uniforms that were compared with numbers."""
    for atom in atoms:
        atom.check_epoch()
    masses = _narrowed_masses(_spans_left(atoms, flip=flip), tuple(rates))
    total = math.fsum(masses)
    if abs(total - 1) > _MASS_TOLERANCE:
        source.refuse("a race of draws of which next to nothing is left")
    won = source.fork([mass / total for mass in masses], DecisionKind.SEVERAL)
    race = NarrowedRace(atoms, rates, won, flip=flip)
    for atom in atoms:
        atom.owner = race
    return won


@functools.lru_cache(maxsize=2**14)
def _narrowed_masses(
    spans: tuple[tuple[float, float], ...], rates: tuple[float, ...]
) -> tuple[float, ...]:
    """Return how likely each comes first; ``spans``: what is left of each exp(-E)."""
    return tuple(_narrowed_arrivals(spans, rates)[1].sum(axis=1).tolist())


def _narrowed_arrivals(
    spans: Sequence[tuple[float, float]], rates: Sequence[float]
) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return times (m,), and how likely each comes first and about then (n, m)."""
    low, high = np.array(spans).T[:, :, None]
    rate = np.array(rates)[:, None]
    begins = -np.log(high[:, 0]) / rate[:, 0]
    with np.errstate(divide="ignore"):
        ends = -np.log(low[:, 0]) / rate[:, 0]
    total = float(rate.sum())
    last = min(float(ends.min()), float(begins.max()) + _LAST_DECAY / total)
    cuts = sorted({float(t) for t in begins if t < last} | {float(begins.min()), last})
    times, masses = [np.empty(0)], [np.empty((len(rates), 0))]
    for start, end in itertools.pairwise(cuts):
        pieces = max(1, math.ceil((end - start) * total / _MAX_DECAY))
        edges = np.linspace(start, end, pieces + 1)
        half = np.diff(edges)[:, None] / 2
        t = ((edges[:-1, None] + half) + half * _GAUSS_NODES).ravel()
        weights = (half * _GAUSS_WEIGHTS).ravel()
        falling = np.exp(-rate * t)
        later = np.clip((falling - low) / (high - low), 0.0, 1.0)
        inside = (begins <= start)[:, None]
        density = np.where(inside, rate * falling / (high - low), 0.0)
        others = [np.delete(later, i, axis=0).prod(axis=0) for i in range(len(rates))]
        times.append(t)
        masses.append(density * others * weights)
    return np.concatenate(times), np.concatenate(masses, axis=1)


def _share_time_scale(racers: list[Racer | None], rates: list[float]) -> bool:
    """Whether those that are in one race already are raced with the weights of that race."""
    scales: dict[Racer, float] = {}
    for racer, rate in zip(racers, rates, strict=True):
        if racer is None:
            continue
        if racer.noise is not None:
            return False
        scale = scales.setdefault(racer.line()[-1], rate / racer.rate)
        if abs(rate / racer.rate / scale - 1) > RATE_TOLERANCE:
            return False
    return True


def _attach_loser(winner: Racer, loser: Racer) -> None:
    loser.parent = winner
    winner.children.append(loser)
    winner.total += loser.total


def _align_time_scales(a: Racer, rate_a: float, b: Racer, rate_b: float) -> bool:
    """Bring two separate races to one time scale; within one race it may be another: false."""
    if a.noise is not None or b.noise is not None:
        return False
    scale = (rate_b / b.rate) / (rate_a / a.rate)
    if abs(scale - 1) <= RATE_TOLERANCE:
        return True
    root_a, root_b = a.line()[-1], b.line()[-1]
    if root_a is root_b:
        return False
    root_b.rescale(scale)
    return True


def _decide_first_of_noise(source: "DrawPath", racers: list[Racer], rates: list[float]) -> int:
    """Return which of E_i / rate_i comes first, where other races were decided among them."""
    known = list(dict.fromkeys(after for racer in racers for after in racer.known()))
    noise = SharedNoise(known)
    options = [
        [ArrivalInequality(x, y, s / r) for y, s in zip(racers, rates, strict=True) if y is not x]
        for x, r in zip(racers, rates, strict=True)
    ]
    try:
        masses = noise.masses(options)
    except TooManyCones:
        source.refuse("noise that is raced many times with different weights", InstanceTooLarge)
    if not (total := math.fsum(masses)):
        source.refuse("noise whose races rounding cannot tell apart")
    won = source.fork([mass / total for mass in masses], DecisionKind.SEVERAL)
    noise.learn(options[won])
    for after in noise.known:
        for racer in (after.early, after.late):
            cast("Racer", racer).noise = noise
    return won
