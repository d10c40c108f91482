"""The two programmes behind the certified bounds: a grid of rays uniform in log f/m.

The value of what follows an atom (m, f) is concave, homogeneous and increasing. Splitting an
atom onto the two neighbouring rays of a grid bounds it from below (:func:`lower_values`);
adding the atoms of a bin to one atom bounds it from above (:func:`upper_values`). A token's
shift may be rounded to whole bins in the second: any atoms may be added, near ones lose less.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.simulators.kernels.tree_bounds import (
    lower_level,
    lower_value,
    upper_level,
    upper_value,
)

Taps = tuple[npt.NDArray[Any], ...]
"""Next state, shift in bins, and masses: all tokens that share the first two, added up."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """Nodes of one level: ``state`` int64, ``mass`` m and ``joint`` f float64, all (n,) and > 0."""

    state: Ints
    mass: Floats
    joint: Floats


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens by the state before them: float64 rows ``q`` and ``p`` (S, V).

    Only every ``stride``-th counts, for all of its neighbours: enough to choose a grid.
    """

    q: Floats
    p: Floats
    stride: int = 1

    def after(self, state: int) -> tuple[Ints, Floats, Floats]:
        """Next state, q and p of the tokens with p, q > 0; the rest are worth nothing."""
        q, p = self.q[state, :: self.stride], self.p[state, :: self.stride]
        token = np.flatnonzero((q > 0) & (p > 0))
        scale = float(self.stride)
        return token * self.stride % len(self.q), scale * q[token], scale * p[token]


@dataclass(frozen=True)
class Grid:
    """Rays f = m e^(step j) for j = low..low + bins in each state; bin j is up to ray j+1.

    ``capped``: f never exceeds m, and the highest ray is j = 0; else ``low = -bins / 2``.
    """

    capped: bool
    states: int
    bins: int
    step: float

    @property
    def low(self) -> int:
        """Index of the lowest ray."""
        return -self.bins if self.capped else -(self.bins // 2)


def lower_values(grid: Grid, tokens: Tokens, atoms: Atoms, levels: int) -> list[float]:
    """Bound the sums of min(m, f), one to ``levels`` levels after ``atoms``, from below."""

    def taps(to: Ints, q: Floats, p: Floats) -> Taps:
        to, ray, near, far = _merge(grid.states, to, *_split(grid, q, p))
        both = np.concatenate([ray, ray + 1])
        return _merge(grid.states, np.tile(to, 2), both, np.concatenate([near, far]))

    first, (to, shift, weight) = _by_state(tokens, taps)
    joint_weight = weight * np.exp(grid.step * shift)
    scale = np.exp(grid.step * np.arange(grid.bins + 1))
    lowest = np.exp(grid.step * grid.low)

    mass = _onto_rays(grid, atoms)
    values = []
    for left in range(levels, 0, -1):
        above, below = _above(mass), _below(mass * scale)
        full, part = lower_value(above, below, -grid.low, first, shift, weight, joint_weight)
        values.append(full + part * lowest)
        if left > 1:
            out = np.zeros_like(mass)
            lower_level(mass, above, below, first, to, shift, weight, joint_weight, out)
            mass = out
    return values


def upper_values(grid: Grid, tokens: Tokens, atoms: Atoms, levels: int) -> list[float]:
    """Bound the sums of min(m, f), one to ``levels`` levels after ``atoms``, from above."""
    farthest = 2 * grid.bins

    def taps(to: Ints, q: Floats, p: Floats) -> Taps:
        shift = np.rint(log_ratio(q, p) / grid.step).astype(np.int64)
        return _merge(grid.states, to, np.clip(shift, -farthest, farthest), q, p)

    first, (to, shift, q, p) = _by_state(tokens, taps)
    from_cap = np.floor(log_ratio(q, p) / grid.step).astype(np.int64) - grid.low
    from_cap = np.clip(from_cap, 0, grid.bins)

    mass, joint, cap = _into_bins(grid, atoms)
    values = []
    for left in range(levels, 0, -1):
        mass_above, mass_below = _above(mass), _below(mass)
        joint_above, joint_below = _above(joint), _below(joint)
        values.append(
            upper_value(-grid.low, mass, mass_above, joint, joint_below, cap, first, shift, q, p)
        )
        if left > 1:
            out_mass, out_joint, out_cap = (np.zeros_like(x) for x in (mass, joint, cap))
            upper_level(
                grid.capped, mass, mass_above, mass_below, joint, joint_above, joint_below, cap,
                first, to, shift, from_cap, q, p, out_mass, out_joint, out_cap,
            )  # fmt: skip
            mass, joint, cap = out_mass, out_joint, out_cap
            if grid.capped:
                np.minimum(joint, mass, out=joint)
    return values


def add_up(cell: Ints, weight: Floats, cells: int) -> Floats:
    """Sum of the weights in each cell: float64 (cells,)."""
    # bincount of nothing is of integers.
    return np.bincount(cell, weight, cells).astype(np.float64, copy=False)


def log_ratio(mass: Floats, joint: Floats) -> Floats:
    """Return log f/m, whose quotient may overflow."""
    ratio: Floats = np.log(joint) - np.log(mass)
    return ratio


def _split(grid: Grid, mass: Floats, joint: Floats) -> tuple[Ints, Floats, Floats]:
    """Split vectors onto rays j and j+1: returns j and the two masses.

    Vectors more than twice the grid away give up the mass that hardly counts there.
    """
    farthest = 2 * grid.bins
    mass = np.minimum(mass, joint * np.exp(min(farthest * grid.step, 700.0)))
    with np.errstate(over="ignore"):
        ratio = np.minimum(joint / mass, 1e300)
    ray = np.minimum(np.floor(np.log(ratio) / grid.step), farthest)
    part = (ratio * np.exp(-grid.step * ray) - 1.0) / np.expm1(grid.step)
    part = np.clip(part, 0.0, 1.0)
    return ray.astype(np.int64), mass * (1.0 - part), mass * part


def _onto_rays(grid: Grid, atoms: Atoms) -> Floats:
    """Split atoms onto the grid: draft mass per state and ray, (S, bins + 1)."""
    lowest, highest = np.exp(grid.step * np.array([grid.low, grid.low + grid.bins]))
    mass = np.minimum(atoms.mass, atoms.joint / lowest)
    ray, near, far = _split(grid, mass, np.minimum(atoms.joint, mass * highest))
    # Rounding may put an atom on an end ray just outside: one column more on either side.
    width = grid.bins + 3
    cell = atoms.state * width + np.clip(ray - grid.low + 1, 0, grid.bins + 1)
    table = add_up(cell, near, grid.states * width)
    table += add_up(cell + 1, far, grid.states * width)
    table = table.reshape(grid.states, width)
    table[:, -2] += table[:, -1]
    return table[:, 1:-1].copy()


def _into_bins(grid: Grid, atoms: Atoms) -> tuple[Floats, Floats, Floats]:
    """Add up the atoms of each bin: m and f (S, bins), and the mass at the cap (S,)."""
    at_cap = grid.capped & (atoms.joint >= atoms.mass)
    cap = add_up(atoms.state[at_cap], atoms.mass[at_cap], grid.states)
    state, mass, joint = atoms.state[~at_cap], atoms.mass[~at_cap], atoms.joint[~at_cap]
    ray = np.floor(log_ratio(mass, joint) / grid.step).astype(np.int64)
    cell = state * grid.bins + np.clip(ray - grid.low, 0, grid.bins - 1)
    shape = (grid.states, grid.bins)
    cells = grid.states * grid.bins
    return add_up(cell, mass, cells).reshape(shape), add_up(cell, joint, cells).reshape(shape), cap


def _by_state(tokens: Tokens, taps: Callable[[Ints, Floats, Floats], Taps]) -> tuple[Ints, Taps]:
    """Taps of each state in turn, so that a large vocabulary is never held at once.

    Returns the index of each state's first tap (S+1,), and the taps of all.
    """
    parts = [taps(*tokens.after(state)) for state in range(len(tokens.q))]
    first = np.cumsum([0, *(len(part[0]) for part in parts)])
    return first, tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _merge(states: int, to: Ints, shift: Ints, *weights: Floats) -> Taps:
    """Add up the weights of equal (to, shift); returns the taps sorted by them."""
    base = int(shift.min(initial=0))
    span = int(shift.max(initial=0)) - base + 1
    keys = to * span + (shift - base)
    cells = states * span
    if cells <= 4 * keys.size:
        # Sorting takes longer; here most cells are occupied anyway.
        taps = np.flatnonzero(np.bincount(keys, minlength=cells))
        sums = [add_up(keys, weight, cells)[taps] for weight in weights]
    else:
        taps, index = np.unique(keys, return_inverse=True)
        sums = [add_up(index, weight, taps.size) for weight in weights]
    return taps // span, taps % span + base, *sums


def _above(table: Floats) -> Floats:
    """Suffix sums (S, N+1): entry b is the sum of columns b and up."""
    sums = np.zeros((table.shape[0], table.shape[1] + 1))
    np.cumsum(table[:, ::-1], axis=1, out=sums[:, -2::-1])
    return sums


def _below(table: Floats) -> Floats:
    """Prefix sums (S, N+1): entry b is the sum of columns below b."""
    sums = np.zeros((table.shape[0], table.shape[1] + 1))
    np.cumsum(table, axis=1, out=sums[:, 1:])
    return sums
