"""Races of draws that rounding swamps: of few values on a grid, with ties that have a probability.

Noise plus a large constant, or in a coarse type, is a step function of its uniform. All its steps
are found on the machine's own grid, and what comes first follows from them by summing over the
value of the winner: those before it in the race are beyond it, those after it may be equal.
"""

__simverify_role__ = "stand-in"


import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.symbolic.forms import NO_OPERAND, SINGLE_POINTS, Machine

MAX_STEPS = 2**17
"""Values of one draw up to which its steps are found."""

_FIRST_CELLS = 2**12
_CHECKED_POINTS = 16
_MAX_KNOWN = 256

Floats = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepLaw:
    """A draw by its steps, the smallest value first.

    ``values``: float64 (n,), ascending. ``starts`` and ``widths``: int64 (n,), the points of the
    grid that have each. ``below``: float64 (n + 1,), probability of the values before the i-th.
    """

    values: Floats
    starts: Points
    widths: Points
    below: Floats

    def at_most(self, x: Floats, *, strictly: bool) -> Floats:
        """Return the probability of values up to each of x (n,), or below it."""
        found: Floats = self.below[
            np.searchsorted(self.values, x, side="left" if strictly else "right")
        ]
        return found


def constant_law(x: float) -> StepLaw:
    """Return the law of a number that races too."""
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return StepLaw(np.array([x], dtype=np.float64), none, one, np.array([0.0, 1.0]))


_KNOWN: dict[Hashable, StepLaw | None] = {}
"""Laws by what the machine does: the same one is asked for on every path."""


def step_law(machine: Machine, first: int, last: int) -> StepLaw | None:
    """Return the law of a draw on the points ``first``..``last``; None if it has too many steps."""
    key = (*_operations(machine), first, last)
    if key not in _KNOWN:
        while len(_KNOWN) >= _MAX_KNOWN:
            del _KNOWN[next(iter(_KNOWN))]
        try:
            _KNOWN[key] = _find_steps(machine, first, last)
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            _KNOWN[key] = None  # an operation that takes one number at a time
    return _KNOWN[key]


def _operations(machine: Machine) -> list[Hashable]:
    key: list[Hashable] = []
    node: Machine | None = machine
    while node is not None:
        key.append((node.op, _operand_key(node.other), node.reverse))
        node = node.before
    return key


def _operand_key(other: Any) -> Hashable:
    if other is NO_OPERAND:
        return None
    number = np.asarray(other)
    # Of an object, as a long integer, the bytes are where it lies, and another may lie there next.
    return type(other), repr(other) if number.dtype == object else number.tobytes()


def _values_at(machine: Machine, points: Points) -> npt.NDArray[Any]:
    """Return the values at points (n,), computed together where the operations allow it."""
    if machine.before is None:
        return np.asarray(machine.op(points))
    before = _values_at(machine.before, points)
    try:
        values = np.asarray(machine.apply(before))
    except (TypeError, ValueError):  # a function of one number
        values = np.array([machine.apply(x) for x in before.tolist()])
    return values


def _find_steps(machine: Machine, first: int, last: int) -> StepLaw | None:
    value, one = partial(_values_at, machine), machine.values()
    step = max(1, -(-(last - first) // _FIRST_CELLS))
    points = np.array([*range(first, last, step), last], dtype=np.int64)
    seen = value(points)
    some = points[:: max(1, len(points) // _CHECKED_POINTS)]
    if [float(one(int(k))) for k in some] != np.asarray(value(some), np.float64).tolist():
        return None  # of arrays the operations make other types
    low, high, at_low, at_high = points[:-1], points[1:], seen[:-1], seen[1:]
    cuts = [np.array([first], dtype=np.int64)]
    while True:
        open_ = at_low != at_high
        cuts.append(high[open_ & (high - low == 1)])
        open_ &= high - low > 1
        if not open_.any():
            break
        if open_.sum() + sum(map(len, cuts)) > MAX_STEPS:
            return None
        low, high, at_low, at_high = low[open_], high[open_], at_low[open_], at_high[open_]
        middle = low + (high - low) // 2
        at_middle = value(middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        at_low, at_high = np.append(at_low, at_middle), np.append(at_middle, at_high)
    starts = np.sort(np.concatenate(cuts))
    widths = np.diff(np.append(starts, last + 1))
    values = np.asarray(value(starts), dtype=np.float64)
    if len(values) > 1 and values[0] > values[-1]:
        starts, widths, values = starts[::-1], widths[::-1], values[::-1]
    if not np.all(np.diff(values) > 0):
        return None  # not monotone, or no number
    below = np.append(0.0, np.cumsum(widths, dtype=np.float64)) / (last + 1 - first)
    return StepLaw(values, starts, widths, below)


def winning_weights(laws: list[StepLaw], *, largest: bool) -> list[float]:
    """Return how likely each of some independent draws is the first extreme one."""
    weights = []
    for i, law in enumerate(laws):
        mass = np.diff(law.below)
        for j, other in enumerate(laws):
            if j == i:
                continue
            if largest:
                mass = mass * other.at_most(law.values, strictly=j < i)
            else:
                mass = mass * (1 - other.at_most(law.values, strictly=j > i))
        weights.append(math.fsum(mass.tolist()))
    return weights


@dataclass(frozen=True, eq=False)
class RoundedRacer:
    """A uniform, an atom, in a race that was decided: all that is known of it is who won."""

    atom: Any
    race: "RoundedRace"

    def sample_uniform(self, rng: np.random.Generator, samples: dict[Any, float]) -> float:
        """Return a number for the uniform, which fits those in ``samples`` of the same race."""
        if self not in samples:
            samples.update(self.race.sample(rng))
        return samples[self]


class RoundedRace:
    """A race that was decided. ``atoms``: the uniform of each law, None of a number."""

    def __init__(self, laws: list[StepLaw], atoms: list[Any], won: int, *, largest: bool) -> None:
        self._laws, self._won, self._largest = laws, won, largest
        self._racers = [None if atom is None else RoundedRacer(atom, self) for atom in atoms]
        for racer in self._racers:
            if racer is not None:
                racer.atom.owner = racer

    def sample(self, rng: np.random.Generator) -> dict[Any, float]:
        """Draw all uniforms, on condition that the winner won."""
        laws, won = self._laws, self._won
        mass = np.diff(laws[won].below)
        # How many values of each law are below each value of the winner's, or up to it.
        ends: dict[int, Points] = {}
        for j, law in enumerate(laws):
            if j != won:
                side: Literal["left", "right"] = "left" if (j < won) == self._largest else "right"
                ends[j] = np.searchsorted(law.values, laws[won].values, side).astype(np.int64)
                mass = mass * (law.below[ends[j]] if self._largest else 1 - law.below[ends[j]])
        value = int(rng.choice(len(mass), p=mass / mass.sum()))
        samples: dict[Any, float] = {}
        for j, (law, racer) in enumerate(zip(laws, self._racers, strict=True)):
            if racer is None:
                continue
            place = value
            if j != won:
                end = int(ends[j][value])
                first, last = (0, end) if self._largest else (end, len(law.values))
                low, high = law.below[first], law.below[last]
                at = np.searchsorted(law.below, low + rng.random() * (high - low), side="right") - 1
                place = min(max(int(at), first), last - 1)
            point = int(law.starts[place] + law.widths[place] // 2)
            points = racer.atom.points
            # On a coarse grid in the middle of what is rounded down to the point.
            samples[racer] = (point + 0.5 * (points <= SINGLE_POINTS)) / points
        return samples
