"""Certified bounds on the acceptance curves of block and greedy block at size.

A node x^l of the tree is an atom (state, m, f): draft mass m = Ms(x^l) and joint mass f, with
children (m q(x), f p(x)), f capped at m for block. Level l's value is the sum of min(m, f):
Pr(tau >= l) for block, and for greedy block's first call, whose joint mass is never capped
(Sun et al. 2025, algorithms 2 and 4; for greedy it is the coupling bound too). The first levels
are kept atom by atom; from there two programmes on a grid of rays bound the rest.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simverify.arrays import Floats
from simverify.models.base import MarkovModel
from simverify.simulators.exact.ray_grid import (
    Atoms,
    Grid,
    Tokens,
    add_up,
    log_ratio,
    lower_values,
    upper_values,
)

_EXACT_ATOMS = 1 << 20
_FEWEST_BINS, _MOST_BINS = 256, 8192
# Additions of one bound's run, a third of a nanosecond each.
_WORK = 6.0e9
# The grid's reach is chosen on a sample of no more tokens: any reach gives true bounds.
_GRID_TOKENS = 1 << 18
_ULP = 2.0**-53
# Rays whose log f/m differ by no more are one: a relative error of that size.
_SAME_RAY = 1e-12


@dataclass(frozen=True, eq=False)
class CurveBounds:
    """Bounds on an acceptance curve: ``lower <= Pr(tau >= l) <= upper``, float64 (gamma,).

    They hold for the float64 rows as given, rounding included. ``bins`` is the grid's size
    per state, 0 where every node of the tree was enumerated.
    """

    lower: Floats
    upper: Floats
    bins: int

    @property
    def expected_lower(self) -> float:
        """Lower bound on E[tau]."""
        return float(self.lower.sum())

    @property
    def expected_upper(self) -> float:
        """Upper bound on E[tau]."""
        return float(self.upper.sum())

    @property
    def width(self) -> float:
        """Width of the bounds on E[tau]."""
        return self.expected_upper - self.expected_lower


def tree_bounds(
    model: MarkovModel,
    gamma: int,
    rule: Literal["block", "greedy"],
    *,
    bins: int | None = None,
    threads: int = 2,
) -> CurveBounds:
    """Bound Pr(tau >= l), l = 1..gamma, of block or of greedy block's first call.

    Parameters
    ----------
    model : MarkovModel
        Target and draft with S states and V tokens.
    gamma : int
        Draft length, 1 or more.
    rule : "block" or "greedy"
        The rule; for "greedy" the values are the coupling bound's as well.
    bins : int, optional
        Bins per state, 32 or more; the width falls with their square. By default as many
        (256 to 8192) as a fixed amount of work allows, a second or so. Unused where the tree
        is small enough to enumerate.
    threads : int
        2 for the bounds below and above side by side, 1 for one after the other; more than 2
        change nothing, and neither number changes a bound.

    Returns
    -------
    CurveBounds
        Widened outward by the largest possible rounding error of the sums.

    Raises
    ------
    ValueError
        gamma, rule, bins or threads out of range.
    """
    _tree_bounds_iv(gamma, rule, bins, threads)
    capped = rule == "block"
    known = _enumerate(model, gamma, capped)
    levels = gamma - len(known.values)
    if levels == 0:
        curve = np.array(known.values)
        # Products of 2 gamma factors, added pairwise.
        return _widened(curve, curve, 0, 4 * gamma + 40, known)

    tokens = Tokens(model.draft_rows, model.target_rows)
    # Odd, so that the sample leads to every state where their number is a power of two.
    some = replace(tokens, stride=-(-tokens.q.size // _GRID_TOKENS) | 1)
    if bins is None:
        bins = _affordable_bins(tokens.q.size, model.states, levels)

    # The kernels release the interpreter lock.
    with ThreadPoolExecutor(min(threads, 2)) as pool:

        def solve(tokens: Tokens, bins: int, reach: float) -> tuple[Floats, Floats]:
            grid = Grid(capped, model.states, bins, reach / (bins if capped else bins / 2))
            jobs = [
                pool.submit(run, grid, tokens, known.atoms, levels)
                for run in (lower_values, upper_values)
            ]
            lower, upper = (np.array([*known.values, *job.result()]) for job in jobs)
            return lower, upper

        def coarse_width(reach: float) -> float:
            lower, upper = solve(some, max(bins // 8, 32), reach)
            return float((upper - lower).sum())

        # A finer grid can afford a little more reach: what lies outside falls fast with it.
        reach = 1.25 * _best_reach(coarse_width, _spread(some) * np.sqrt(gamma))
        lower, upper = solve(tokens, bins, reach)
    # The atoms are added into bins once. A level adds up to one number per tap and bin, the
    # taps one per token; exponents of up to 700 round like a few thousand additions.
    roundings = known.atoms.mass.size + gamma * (3 * tokens.q.size + 2 * bins + 4000)
    return _widened(lower, upper, bins, roundings, known)


@dataclass(frozen=True, eq=False)
class _FirstLevels:
    """``values`` of the levels kept atom by atom, ``certain`` of which lose nothing.

    ``atoms``: those of the last of them, merged ``merges`` times on the way.
    """

    values: list[float]
    certain: int
    atoms: Atoms
    merges: int


def _enumerate(model: MarkovModel, gamma: int, capped: bool) -> _FirstLevels:
    states, size = model.states, model.vocab_size
    next_state = np.arange(size) % states
    values: list[float] = []
    merges = certain = 0
    atoms = Atoms(np.zeros(1, np.int64), np.ones(1), np.ones(1))
    targets, drafts = model.target_start[np.newaxis], model.draft_start[np.newaxis]
    while len(values) < gamma:
        if values and atoms.mass.size * size > _EXACT_ATOMS:
            atoms = _merged(atoms)
            merges += 1
            if atoms.mass.size * size > _EXACT_ATOMS:
                break
        mass = atoms.mass[:, np.newaxis] * drafts[atoms.state]
        joint = atoms.joint[:, np.newaxis] * targets[atoms.state]
        if capped:
            joint = np.minimum(joint, mass)
        if certain == len(values) and (joint >= mass).all():
            certain += 1
        row, token = np.nonzero((mass > 0) & (joint > 0))
        atoms = Atoms(next_state[token], mass[row, token], joint[row, token])
        values.append(float(np.minimum(atoms.mass, atoms.joint).sum()))
        targets, drafts = model.target_rows, model.draft_rows
    return _FirstLevels(values, certain, atoms, merges)


def _merged(atoms: Atoms) -> Atoms:
    """Add up the atoms of one ray: few rays are left where rows are small fractions."""
    ray = np.rint(log_ratio(atoms.mass, atoms.joint) / _SAME_RAY).astype(np.int64)
    order = np.lexsort((ray, atoms.state))
    state, ray = atoms.state[order], ray[order]
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(ray) != 0) | (np.diff(state) != 0)
    group = np.cumsum(new) - 1
    mass = add_up(group, atoms.mass[order], int(new.sum()))
    joint = add_up(group, atoms.joint[order], int(new.sum()))
    return Atoms(state[new], mass, joint)


def _affordable_bins(tokens: int, states: int, levels: int) -> int:
    bins = _MOST_BINS
    while bins > _FEWEST_BINS:
        # Tokens of equal states and shift share a tap; most shifts lie within a third.
        taps = min(tokens, states * states * bins // 3)
        if 2 * taps * bins * levels <= _WORK:
            break
        bins //= 2
    return bins


def _spread(tokens: Tokens) -> float:
    """Root mean square of log p/q where the two rows overlap."""
    weight = square = 0.0
    for state in range(len(tokens.q)):
        _, q, p = tokens.after(state)
        overlap = np.minimum(p, q)
        weight += float(overlap.sum())
        square += float(overlap @ log_ratio(q, p) ** 2)
    return max(math.sqrt(square / weight), 1e-6) if weight > 0 else 1e-6


def _best_reach(width: Callable[[float], float], start: float) -> float:
    """Walk downhill in steps of a factor; too short cuts atoms off, too long is coarse."""
    factor = 1.5
    best, narrowest = start, width(start)
    for step in (factor, 1 / factor):
        if best != start:
            break
        while (here := width(best * step)) < narrowest and 1e-6 < best < 100:
            best, narrowest = best * step, here
    return best


def _widened(
    lower: Floats, upper: Floats, bins: int, roundings: int, known: _FirstLevels
) -> CurveBounds:
    """Widen by the rounding error: all terms are positive, so relative errors only add up.

    Levels that lose nothing are 1, whatever their sums round to.
    """
    slack = roundings * _ULP + known.merges * _SAME_RAY
    lower, upper = lower * (1 - slack), np.minimum(upper * (1 + slack), 1.0)
    lower[: known.certain] = upper[: known.certain] = 1.0
    return CurveBounds(np.minimum(lower, upper), upper, bins)


def _tree_bounds_iv(gamma: int, rule: str, bins: int | None, threads: int) -> None:
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}: pass a draft length of 1 or more")
    if rule not in ("block", "greedy"):
        raise ValueError(f"rule is {rule!r}: pass 'block' or 'greedy' (token has linear_curve)")
    if bins is not None and bins < 32:
        raise ValueError(f"bins is {bins}: pass 32 or more, or None for as many as are affordable")
    if threads < 1:
        raise ValueError(f"threads is {threads}: pass 1 or more")
