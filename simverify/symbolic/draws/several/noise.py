"""One noise that is raced several times, each time with other weights.

What is known about independent standard exponentials after such races is a list of inequalities
``E_c >= k E_p``: the loser c came after the winner p, in the scale of that race. Together they
are a cone, and its mass is the probability of all of them. An exponential that beat nobody only
has lower bounds, which are integrated away: it is above all of them with probability
exp(-max k x). What is left is the integral of exp(-h) over a cone in the few coordinates that won
somewhere, where h is linear on each of finitely many pieces. On a piece with generators g_1..g_m
it is |det(g_1, .., g_m)| / (h(g_1) .. h(g_m)), a rational function of the weights: nothing is
approximated.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

MOST_PIECES = 500
"""Pieces of a cone, beyond which nothing is computed."""

Generator = tuple[float, ...]
Cone = list[Generator]


class TooManyPieces(Exception):
    """The noise was raced too often, and between too many, for its law to be computed."""


class After(NamedTuple):
    """What one decision tells: ``E_late >= times * E_early``."""

    early: Hashable
    late: Hashable
    times: float


class Noise:
    """What is known of some exponentials, by the inequalities between them."""

    def __init__(self, known: Iterable[After] = ()) -> None:
        self.known = list(known)

    def masses(self, options: Sequence[Sequence[After]]) -> list[float]:
        """Return the probability that what is known holds, and each of the options with it."""
        return [_mass(_numbered([*self.known, *more])) for more in options]

    def learn(self, more: Iterable[After]) -> None:
        """Note what was decided; what is known already need not be kept twice."""
        self.known = list(dict.fromkeys([*self.known, *more]))

    def sample(self, rng: np.random.Generator) -> dict[Hashable, float]:
        """Draw all exponentials that are known of, on condition of what is known."""
        law = _Law(self.known)
        piece = int(rng.choice(len(law.masses), p=law.masses / law.masses.sum()))
        far = rng.exponential(size=len(law.winners)) / law.heights[piece]
        x = far @ law.generators[piece]
        found: dict[Hashable, float] = dict(zip(law.winners, x.tolist(), strict=True))
        for loser, bounds in law.bounds.items():
            found[loser] = max(k * float(x[i]) for i, k in bounds.items()) + rng.exponential()
        return found


class _Law:
    """The pieces of the cone of some inequalities, simplicial cones on which h is linear.

    ``winners``: its m coordinates, those that came before another. ``bounds``: for each of the
    others, the largest factor by coordinate. ``generators``: float64 (pieces, m, m), a row each;
    ``heights``: h at them, (pieces, m); ``masses``: the integrals of exp(-h), (pieces,).
    """

    def __init__(self, known: Sequence[After]) -> None:
        self.winners = list(dict.fromkeys(after.early for after in known))
        place = {winner: i for i, winner in enumerate(self.winners)}
        size = len(place)
        self.bounds: dict[Hashable, dict[int, float]] = {}
        cones: list[Cone] = [[tuple(float(i == j) for j in range(size)) for i in range(size)]]
        for early, late, times in known:
            i = place[early]
            if late in place:
                cones, _ = _split(cones, place[late], 1.0, i, times)
            else:
                bounds = self.bounds.setdefault(late, {})
                bounds[i] = max(times, bounds.get(i, 0.0))
        # Where the largest of several bounds is another one, h bends.
        for bounds in self.bounds.values():
            factors = list(bounds.items())
            for at, (i, k) in enumerate(factors):
                for j, other in factors[at + 1 :]:
                    above, below = _split(cones, i, k, j, other)
                    cones = above + below
        self.generators = np.array(cones, dtype=np.float64).reshape(-1, size, size)
        self.heights = self.generators.sum(axis=2)
        for bounds in self.bounds.values():
            scaled = self.generators[:, :, list(bounds)] * list(bounds.values())
            self.heights += scaled.max(axis=2)
        self.masses = np.abs(np.linalg.det(self.generators)) / self.heights.prod(axis=1)


@lru_cache(maxsize=2**15)
def _mass(known: tuple[After, ...]) -> float:
    """Return the mass of a cone; every path that begins alike asks for it again."""
    return math.fsum(_Law(known).masses.tolist())


def _numbered(known: Sequence[After]) -> tuple[After, ...]:
    """Return inequalities with numbers for what they are between, in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        After(
            numbers.setdefault(after.early, len(numbers)),
            numbers.setdefault(after.late, len(numbers)),
            after.times,
        )
        for after in known
    )


def _split(cones: list[Cone], i: int, a: float, j: int, b: float) -> tuple[list[Cone], list[Cone]]:
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
        if len(above) + len(below) + len(left) > MOST_PIECES:
            raise TooManyPieces
    return above, below
