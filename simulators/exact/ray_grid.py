"""The two programmes behind the certified bounds: a grid of rays uniform in log f/m.

The value of what follows an atom (m, f) is concave, homogeneous and increasing. Splitting an
atom onto the two neighbouring rays of a grid bounds it from below (:func:`lower_values`);
adding the atoms of a bin to one atom bounds it from above (:func:`upper_values`). A token's
shift may be rounded to whole bins in the second: any atoms may be added, near ones lose less.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.simulators.kernels.tree_bounds import (
    lower_level,
    lower_value,
    upper_level,
    upper_value,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Atoms:
    """Nodes of one level: ``state`` int64, ``mass`` m and ``joint`` f float64, all (n,) and > 0."""

    state: Ints
    mass: Floats
    joint: Floats


@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens with p, q > 0: ``state`` before and ``to`` after, int64, ``q`` and ``p``."""

    state: Ints
    to: Ints
    q: Floats
    p: Floats


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
    ray, near, far = _split(grid, tokens.q, tokens.p)
    state, to, ray, near, far = _merge(grid.states, tokens.state, tokens.to, ray, near, far)
    state, to, shift, weight = _merge(
        grid.states,
        np.tile(state, 2),
        np.tile(to, 2),
        np.concatenate([ray, ray + 1]),
        np.concatenate([near, far]),
    )
    first = np.searchsorted(state, np.arange(grid.states + 1))
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
    shift = np.rint(log_ratio(tokens.q, tokens.p) / grid.step).astype(np.int64)
    shift = np.clip(shift, -farthest, farthest)
    state, to, shift, q, p = _merge(grid.states, tokens.state, tokens.to, shift, tokens.q, tokens.p)
    first = np.searchsorted(state, np.arange(grid.states + 1))
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


def _merge(
    states: int, state: Ints, to: Ints, shift: Ints, *weights: Floats
) -> tuple[npt.NDArray[Any], ...]:
    """Add up the weights of equal (state, to, shift); returns the taps sorted by them."""
    base = int(shift.min(initial=0))
    span = int(shift.max(initial=0)) - base + 1
    keys = (state * states + to) * span + (shift - base)
    cells = states * states * span
    if cells <= 4 * keys.size:
        # Sorting ten million tokens takes seconds; here most cells are occupied anyway.
        taps = np.flatnonzero(np.bincount(keys, minlength=cells))
        sums = [add_up(keys, weight, cells)[taps] for weight in weights]
    else:
        taps, index = np.unique(keys, return_inverse=True)
        sums = [add_up(index, weight, taps.size) for weight in weights]
    pairs = taps // span
    return pairs // states, pairs % states, taps % span + base, *sums


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
