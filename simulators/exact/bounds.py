"""Proven bounds on what a rule accepts: curves at size, one node's optimum, linear programs.

Block and greedy block on chains, traversal on several chains from the root, the best hit among the
drafts of one node, and the best rule of all on small draft trees.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from simverify.arrays import Floats, Ints
from simverify.errors import UsageError
from simverify.models.base import MarkovModel
from simverify.simulators.exact.laws import token_accepted_mass
from simverify.simulators.kernels import chains as chain_kernels
from simverify.symbolic.paths import TooManyPaths
from simverify.trees import Drafting, RowAfter, Scheme, enumerate_trees
from simverify.verifiers.base import Array

# The two programmes behind the certified bounds: a grid of rays uniform in log f/m.
#
# The value of what follows an atom (m, f) is concave, homogeneous and increasing. Splitting an
# atom onto the two neighbouring rays of a grid bounds it from below (:func:`lower_values`);
# adding the atoms of a bin to one atom bounds it from above (:func:`upper_values`). A token's
# shift may be rounded to whole bins in the second: any atoms may be added, near ones lose less.


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
        to, ray, near, far = _merge_taps(grid.states, to, *_split_onto_rays(grid, q, p))
        both = np.concatenate([ray, ray + 1])
        return _merge_taps(grid.states, np.tile(to, 2), both, np.concatenate([near, far]))

    first, (to, shift, weight) = _taps_by_state(tokens, taps)
    joint_weight = weight * np.exp(grid.step * shift)
    scale = np.exp(grid.step * np.arange(grid.bins + 1))
    lowest = np.exp(grid.step * grid.low)

    mass = _onto_rays(grid, atoms)
    values = []
    for left in range(levels, 0, -1):
        above, below = _suffix_sums(mass), _prefix_sums(mass * scale)
        full, part = chain_kernels.lower_value(
            above, below, -grid.low, first, shift, weight, joint_weight
        )
        values.append(full + part * lowest)
        if left > 1:
            out = np.zeros_like(mass)
            chain_kernels.lower_level(
                mass, above, below, first, to, shift, weight, joint_weight, out
            )
            mass = out
    return values


def upper_values(grid: Grid, tokens: Tokens, atoms: Atoms, levels: int) -> list[float]:
    """Bound the sums of min(m, f), one to ``levels`` levels after ``atoms``, from above."""
    farthest = 2 * grid.bins

    def taps(to: Ints, q: Floats, p: Floats) -> Taps:
        shift = np.rint(log_ratio(q, p) / grid.step).astype(np.int64)
        return _merge_taps(grid.states, to, np.clip(shift, -farthest, farthest), q, p)

    first, (to, shift, q, p) = _taps_by_state(tokens, taps)
    from_cap = np.floor(log_ratio(q, p) / grid.step).astype(np.int64) - grid.low
    from_cap = np.clip(from_cap, 0, grid.bins)

    mass, joint, cap = _into_bins(grid, atoms)
    values = []
    for left in range(levels, 0, -1):
        masses, joints = ((x, _suffix_sums(x), _prefix_sums(x)) for x in (mass, joint))
        values.append(
            chain_kernels.upper_value(
                -grid.low, *masses[:2], joint, joints[2], cap, first, shift, q, p
            )
        )
        if left > 1:
            out = [np.zeros_like(x) for x in (mass, joint, cap)]
            taps_of_all = first, to, shift, from_cap, q, p
            chain_kernels.upper_level(grid.capped, *masses, *joints, cap, *taps_of_all, *out)
            mass, joint, cap = out
            if grid.capped:
                np.minimum(joint, mass, out=joint)
    return values


def sum_by_cell(cell: Ints, weight: Floats, cells: int) -> Floats:
    """Sum of the weights in each cell: float64 (cells,)."""
    # bincount of nothing is of integers.
    return np.bincount(cell, weight, cells).astype(np.float64, copy=False)


def log_ratio(mass: Floats, joint: Floats) -> Floats:
    """Return log f/m, whose quotient may overflow."""
    ratio: Floats = np.log(joint) - np.log(mass)
    return ratio


def _split_onto_rays(grid: Grid, mass: Floats, joint: Floats) -> tuple[Ints, Floats, Floats]:
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
    ray, near, far = _split_onto_rays(grid, mass, np.minimum(atoms.joint, mass * highest))
    # Rounding may put an atom on an end ray just outside: one column more on either side.
    width = grid.bins + 3
    cell = atoms.state * width + np.clip(ray - grid.low + 1, 0, grid.bins + 1)
    table = sum_by_cell(cell, near, grid.states * width)
    table += sum_by_cell(cell + 1, far, grid.states * width)
    table = table.reshape(grid.states, width)
    table[:, -2] += table[:, -1]
    return table[:, 1:-1].copy()


def _into_bins(grid: Grid, atoms: Atoms) -> tuple[Floats, Floats, Floats]:
    """Add up the atoms of each bin: m and f (S, bins), and the mass at the cap (S,)."""
    at_cap = grid.capped & (atoms.joint >= atoms.mass)
    cap = sum_by_cell(atoms.state[at_cap], atoms.mass[at_cap], grid.states)
    state, mass, joint = atoms.state[~at_cap], atoms.mass[~at_cap], atoms.joint[~at_cap]
    ray = np.floor(log_ratio(mass, joint) / grid.step).astype(np.int64)
    cell = state * grid.bins + np.clip(ray - grid.low, 0, grid.bins - 1)
    masses, joints = (
        sum_by_cell(cell, x, grid.states * grid.bins).reshape(grid.states, grid.bins)
        for x in (mass, joint)
    )
    return masses, joints, cap


def _taps_by_state(
    tokens: Tokens, taps: Callable[[Ints, Floats, Floats], Taps]
) -> tuple[Ints, Taps]:
    """Taps of each state in turn, so that a large vocabulary is never held at once.

    Returns the index of each state's first tap (S+1,), and the taps of all.
    """
    parts = [taps(*tokens.after(state)) for state in range(len(tokens.q))]
    first = np.cumsum([0, *(len(part[0]) for part in parts)])
    return first, tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _merge_taps(states: int, to: Ints, shift: Ints, *weights: Floats) -> Taps:
    """Add up the weights of equal (to, shift); returns the taps sorted by them."""
    base = int(shift.min(initial=0))
    span = int(shift.max(initial=0)) - base + 1
    keys = to * span + (shift - base)
    cells = states * span
    if cells <= 4 * keys.size:
        # Sorting takes longer; here most cells are occupied anyway.
        taps = np.flatnonzero(np.bincount(keys, minlength=cells))
        sums = [sum_by_cell(keys, weight, cells)[taps] for weight in weights]
    else:
        taps, index = np.unique(keys, return_inverse=True)
        sums = [sum_by_cell(index, weight, taps.size) for weight in weights]
    return taps // span, taps % span + base, *sums


def _suffix_sums(table: Floats) -> Floats:
    """Suffix sums (S, N+1): entry b is the sum of columns b and up."""
    sums = np.zeros((table.shape[0], table.shape[1] + 1))
    np.cumsum(table[:, ::-1], axis=1, out=sums[:, -2::-1])
    return sums


def _prefix_sums(table: Floats) -> Floats:
    """Prefix sums (S, N+1): entry b is the sum of columns below b."""
    sums = np.zeros((table.shape[0], table.shape[1] + 1))
    np.cumsum(table, axis=1, out=sums[:, 1:])
    return sums


_EXACT_ATOMS = 1 << 20
_MIN_BINS, _MAX_BINS = 256, 8192
# Additions of one bound's run, a third of a nanosecond each.
_MAX_ADDITIONS = 6.0e9
# The grid's reach is chosen on a sample of no more tokens: any reach gives true bounds.
_GRID_TOKENS = 1 << 18
_ULP = 2.0**-53
# Rays whose log f/m differ by no more are one: a relative error of that size.
_RAY_TOLERANCE = 1e-12


# Certified bounds on the acceptance curves of block and greedy block at size.
#
# A node x^l of the tree is an atom (state, m, f): draft mass m = Ms(x^l) and joint mass f, with
# children (m q(x), f p(x)), f capped at m for block. Level l's value is the sum of min(m, f):
# Pr(tau >= l) for block, and for greedy block's first call, whose joint mass is never capped
# (Sun et al. 2025, algorithms 2 and 4; for greedy it is the coupling bound too). The first levels
# are kept atom by atom; from there the two programmes on a grid of rays bound the rest.


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

    The bounds are widened by the largest possible rounding error of the sums. For "greedy" they
    are those of the coupling bound as well. ``bins`` per state, 32 or more: the width falls with
    their square; by default as many (256 to 8192) as a second or so of work allows, and unused
    where the tree is small enough to enumerate. ``threads``: 2 for the lower and the upper bounds
    side by side, which changes no bound.

    Raises ``ValueError`` for gamma, rule, bins or threads out of range.
    """
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}: pass a draft length of 1 or more")
    if rule not in ("block", "greedy"):
        raise ValueError(f"rule is {rule!r}: pass 'block' or 'greedy' (token has linear_curve)")
    if bins is not None and bins < 32:
        raise ValueError(f"bins is {bins}: pass 32 or more, or None for as many as are affordable")
    if threads < 1:
        raise ValueError(f"threads is {threads}: pass 1 or more")
    capped = rule == "block"
    known = _enumerate_levels(model, gamma, capped)
    levels = gamma - len(known.values)
    if levels == 0:
        curve = np.array(known.values)
        # Products of 2 gamma factors, added pairwise.
        return _widen_bounds(curve, curve, 0, 4 * gamma + 40, known)

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
        reach = 1.25 * _best_grid_reach(coarse_width, _log_ratio_rms(some) * np.sqrt(gamma))
        lower, upper = solve(tokens, bins, reach)
    # The atoms are added into bins once. A level adds up to one number per tap and bin, the
    # taps one per token; exponents of up to 700 round like a few thousand additions.
    roundings = known.atoms.mass.size + gamma * (3 * tokens.q.size + 2 * bins + 4000)
    return _widen_bounds(lower, upper, bins, roundings, known)


@dataclass(frozen=True, eq=False)
class _FirstLevels:
    """``values`` of the levels kept atom by atom, ``certain`` of which lose nothing.

    ``atoms``: those of the last of them, merged ``merges`` times on the way.
    """

    values: list[float]
    certain: int
    atoms: Atoms
    merges: int


def _enumerate_levels(model: MarkovModel, gamma: int, capped: bool) -> _FirstLevels:
    states, size = model.states, model.vocab_size
    next_state = np.arange(size) % states
    values: list[float] = []
    merges = certain = 0
    atoms = Atoms(np.zeros(1, np.int64), np.ones(1), np.ones(1))
    targets, drafts = model.target_start[np.newaxis], model.draft_start[np.newaxis]
    while len(values) < gamma:
        if values and atoms.mass.size * size > _EXACT_ATOMS:
            atoms = _merge_rays(atoms)
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


def _merge_rays(atoms: Atoms) -> Atoms:
    """Add up the atoms of one ray: few rays are left where rows are small fractions."""
    ray = np.rint(log_ratio(atoms.mass, atoms.joint) / _RAY_TOLERANCE).astype(np.int64)
    order = np.lexsort((ray, atoms.state))
    state, ray = atoms.state[order], ray[order]
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(ray) != 0) | (np.diff(state) != 0)
    group = np.cumsum(new) - 1
    mass = sum_by_cell(group, atoms.mass[order], int(new.sum()))
    joint = sum_by_cell(group, atoms.joint[order], int(new.sum()))
    return Atoms(state[new], mass, joint)


def _affordable_bins(tokens: int, states: int, levels: int) -> int:
    bins = _MAX_BINS
    while bins > _MIN_BINS:
        # Tokens of equal states and shift share a tap; most shifts lie within a third.
        taps = min(tokens, states * states * bins // 3)
        if 2 * taps * bins * levels <= _MAX_ADDITIONS:
            break
        bins //= 2
    return bins


def _log_ratio_rms(tokens: Tokens) -> float:
    """Root mean square of log p/q where the two rows overlap."""
    weight = square = 0.0
    for state in range(len(tokens.q)):
        _, q, p = tokens.after(state)
        overlap = np.minimum(p, q)
        weight += float(overlap.sum())
        square += float(overlap @ log_ratio(q, p) ** 2)
    return max(math.sqrt(square / weight), 1e-6) if weight > 0 else 1e-6


def _best_grid_reach(width: Callable[[float], float], start: float) -> float:
    """Walk downhill in steps of a factor; too short cuts atoms off, too long is coarse."""
    factor = 1.5
    best, narrowest = start, width(start)
    for step in (factor, 1 / factor):
        if best != start:
            break
        while (current := width(best * step)) < narrowest and 1e-6 < best < 100:
            best, narrowest = best * step, current
    return best


def _widen_bounds(
    lower: Floats, upper: Floats, bins: int, roundings: int, known: _FirstLevels
) -> CurveBounds:
    """Widen by the rounding error: all terms are positive, so relative errors only add up.

    Levels that lose nothing are 1, whatever their sums round to.
    """
    slack = roundings * _ULP + known.merges * _RAY_TOLERANCE
    lower, upper = lower * (1 - slack), np.minimum(upper * (1 + slack), 1.0)
    lower[: known.certain] = upper[: known.certain] = 1.0
    return CurveBounds(np.minimum(lower, upper), upper, bins)


# The best that any rule can do with the drafts of one node.
#
# References
# ----------
# .. [1] Sun et al., "SpecTr", 2023: the optimal transport (OTM) between the drafts and the target.
# .. [2] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", ICLR 2025: its value as a
# minimum over sets of tokens, and which sets are enough.


MAX_DRAWS = 1_000_000  # most ordered draws V^m without replacement that are listed


def best_hit(p: Array, q: Array, k: int, scheme: Scheme) -> Any:
    """Return the largest probability that the emitted token is one of ``k`` siblings.

    It is 1 + the minimum over sets H of p(H) - Pr(all siblings are in H) [2]. The sets that matter
    hold the certain siblings, then tokens in the order of q/p, the largest first. ``p`` and ``q``
    (V,) may be floats or fractions.

    Raises ``UsageError`` for drafts without replacement that are too many to list.
    """
    certain = scheme.fixed(q, k)
    samples = k - len(certain)
    order = [*certain, *_tokens_by_ratio(p, q, certain)]
    if samples <= 0:
        return p[list(certain)].sum()
    if scheme.replaced:
        inside = np.cumsum(q[order]) ** samples
    else:
        inside = _containment_probabilities(q, order, certain, samples, scheme)
    # A set without the certain siblings holds all of them with probability 0, as none does.
    slack = (np.cumsum(p[order]) - inside)[max(len(certain) - 1, 0) :]
    return 1 + min(0 * slack[0], slack.min())


def _tokens_by_ratio(p: Array, q: Array, certain: tuple[int, ...]) -> list[int]:
    """Return the other tokens from the largest q/p down; those with p = 0 come first."""
    rest = [x for x in range(len(p)) if x not in certain]
    if p.dtype == q.dtype == np.float64:  # as below, and fast for the vocabularies of real models
        ratio = np.divide(q, p, out=np.full(len(p), np.inf), where=p > 0)[rest]
        return [rest[i] for i in np.argsort(-ratio, kind="stable")]
    return sorted(rest, key=lambda x: q[x] / p[x] if p[x] > 0 else math.inf, reverse=True)


def _containment_probabilities(
    q: Array, order: list[int], certain: tuple[int, ...], samples: int, scheme: Scheme
) -> Array:
    """Return Pr(all siblings are among the first i tokens of ``order``), i = 1..V."""
    row = scheme.next_row(q, certain)
    if samples == 1 and row is not None:
        only: Array = np.cumsum(row[order])
        return only
    if len(q) ** samples > MAX_DRAWS:
        raise UsageError(
            f"{samples} drafts without replacement of {len(q)} tokens: expected at most "
            f"{MAX_DRAWS:,} ordered draws; take fewer drafts or a smaller vocabulary"
        )
    rank = {token: i for i, token in enumerate(order)}
    last = 0 * q
    for siblings, mass in scheme.law(q, samples + len(certain)).items():
        last[max(rank[x] for x in siblings)] += mass
    inside: Array = np.cumsum(last)
    return inside


# Certified bounds on traversal verification of several chains from the root.
#
# The first chain is judged as in block verification. If all of it is rejected, the root's target
# becomes the token rule's residual, whatever the tokens were, and the root's weight is 1 again; so
# the next chain is judged by block against that residual. The curve is a mixture of block's curves,
# which :func:`tree_bounds` encloses.


_ROUNDING_SLACK = 1e-12
"""More than the residuals and their sums can be off by, a few ulp of a row that sums to 1."""


def traversal_bounds(
    model: MarkovModel, chains: int, gamma: int, *, bins: int | None = None
) -> CurveBounds:
    """Bound Pr(tau >= l), l = 1..gamma, of traversal on ``chains`` independent chains.

    ``bins`` and errors are those of :func:`tree_bounds`, which is called once for each chain.
    """
    lower, upper = np.zeros(gamma), np.zeros(gamma)
    standing, start, used = 1.0, model.target_start, 0
    for _ in range(chains):
        chain = replace(model, target_start=start, rational=None)
        bounds = tree_bounds(chain, gamma, "block", bins=bins)
        lower += standing * bounds.lower
        upper += standing * bounds.upper
        used = max(used, bounds.bins)
        residual = start - token_accepted_mass(start, model.draft_start)
        left = residual.sum()
        standing *= left
        if standing <= _ROUNDING_SLACK:
            break
        start = residual / left
    return CurveBounds(
        np.maximum(lower - _ROUNDING_SLACK, 0), np.minimum(upper + _ROUNDING_SLACK, 1), used
    )


# The best rule on a small draft tree: two linear programs.
#
# A rule for one drafted tree is a choice of a(T, v, y) = Pr(the tree is T, the path to v is
# accepted, the next token is y). It is usable in the plain loop when the tokens of the call,
# continued by the target, follow the target's law; maximising the mean depth of v over all such
# rules gives the memoryless optimum. Without that constraint on the continuation only the joint law
# of T and the target's own text matters, and the value is the coupling bound. On a chain the first
# is block's E[tau] (Sun et al. 2025, theorem 2), the second the sum of min(Ms, Mb).
#
# Numerics: HiGHS at its defaults is off by up to 2.7e-6 at V = 4, gamma = 4. Variables are
# conditional on T (divided by its probability), rows divided by Mb, and the dual is repaired: given
# the prices of the rows, those of the drafts are set to the least feasible value.


Text = tuple[int, ...]
ProgramColumns = Sequence[tuple[int, float, float, Iterable[int]]]

MAX_VARIABLES = 200_000

MAX_DRAFTS = 20_000  # most drafted trees: listing so many takes some seconds


@dataclass(frozen=True)
class TreeOptimum:
    """``value``: HiGHS's optimum, its feasibility tolerance 1e-10. ``upper``: repaired dual.

    ``upper`` bounds the true optimum but for the rounding of float64; ``value`` may err either
    way, so a rule's own E[tau] is the better lower bound.
    """

    value: float
    upper: float


def memoryless_optimum(drafting: Drafting, target: RowAfter, draft: RowAfter) -> TreeOptimum:
    """Largest E[tau] of any lossless rule without carried state, on trees so drafted.

    ``target(text)`` and ``draft(text)`` give float64 rows (V,) that sum to 1, for any tuple of
    token ids, as the methods of a model do. Entries of .02 and more keep the two figures of the
    result within 1e-9 of each other.

    Raises ``UsageError`` for more than 20,000 drafts or 200,000 variables, ``RuntimeError`` where
    HiGHS reaches no optimum.
    """
    size = len(target(()))
    drafts = _draft_set_probabilities(drafting, draft)
    depth = drafting.shape.depth
    # Pr(o^n) of every beginning, to divide by: an emitted o^(t+1) is continued by the target.
    emitted = {
        o: w for n in range(1, depth + 2) for o, w in _text_probabilities(target, size, n).items()
    }
    outputs = [o for o in emitted if len(o) == depth + 1]
    below: dict[Text, list[int]] = {}
    for row, o in enumerate(outputs):
        for n in range(1, depth + 2):
            below.setdefault(o[:n], []).append(row)
    columns = [
        (index, float(len(way)), mass / emitted[out], below[out])
        for index, (ways, mass) in enumerate(drafts.items())
        for way in ways
        for out in ((*way, y) for y in range(size))
        # To stop before a token that was drafted there gains nothing over accepting it.
        if out in emitted and out not in ways
    ]
    return _solve_program(np.array(list(drafts.values())), columns, len(outputs))


def coupling_bound(drafting: Drafting, target: RowAfter, draft: RowAfter) -> TreeOptimum:
    """Largest mean number of tokens that the tree and the target's own text can share.

    Over all couplings of the two; parameters and errors as in :func:`memoryless_optimum`.
    """
    size = len(target(()))
    drafts = _draft_set_probabilities(drafting, draft)
    outputs = _text_probabilities(target, size, drafting.shape.depth)
    if len(drafts) * len(outputs) > MAX_VARIABLES:
        raise _too_large_error(len(drafts) * len(outputs))
    columns = [
        (index, float(max(len(way) for way in ways if o[: len(way)] == way)), mass / weight, [row])
        for index, (ways, mass) in enumerate(drafts.items())
        for row, (o, weight) in enumerate(outputs.items())
    ]
    return _solve_program(np.array(list(drafts.values())), columns, len(outputs))


def _draft_set_probabilities(drafting: Drafting, draft: RowAfter) -> dict[frozenset[Text], float]:
    """Probability of every set of ways from the root, the empty one among them.

    The order of siblings, and how often one came, are chance that helps no rule.
    """
    try:
        law = enumerate_trees(drafting, draft, max_trees=MAX_DRAFTS)
    except TooManyPaths:
        raise UsageError(
            f"more than {MAX_DRAFTS:,} trees can be drafted: take a smaller vocabulary or tree "
            "for its optimum"
        ) from None
    drafts: dict[frozenset[Text], float] = defaultdict(float)
    for tree, mass in law:
        drafts[frozenset(map(tree.text, range(-1, len(tree.tokens))))] += float(mass)
    return drafts


def _text_probabilities(row: RowAfter, size: int, length: int) -> dict[Text, float]:
    """Probability of every text of ``length`` tokens, zeros left out."""
    if size**length > MAX_VARIABLES:
        raise _too_large_error(size**length)
    law: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        rows = {text: row(text) for text in law}
        law = {
            (*text, token): mass * float(rows[text][token])
            for (text, mass), token in itertools.product(law.items(), range(size))
            if mass * float(rows[text][token]) > 0
        }
    return law


def _too_large_error(variables: int) -> UsageError:
    return UsageError(
        f"the optimum of this tree takes {variables:,} variables or more: expected at most "
        f"{MAX_VARIABLES:,}; take a smaller vocabulary or tree for its optimum"
    )


def _solve_program(drafts: Floats, columns: ProgramColumns, rows: int) -> TreeOptimum:
    """Maximise the sum of Pr(T) gain b over b >= 0 with sum b = 1 per draft, rows <= 1.

    A column is (draft T, gain, coefficient, the rows it enters).
    """
    if len(columns) > MAX_VARIABLES:
        raise _too_large_error(len(columns))
    index, value, coefficients, its_rows = zip(*columns, strict=True)
    owner = np.array(index)
    gain = drafts[owner] * np.array(value)
    entries = [
        (row, column, coefficients[column])
        for column, below in enumerate(its_rows)
        for row in below
    ]
    row, column, coefficient = (np.array(x) for x in zip(*entries, strict=True))
    law = sparse.csr_array((coefficient, (row, column)), shape=(rows, owner.size))
    total = sparse.csr_array(
        (np.ones(owner.size), (owner, np.arange(owner.size))), shape=(drafts.size, owner.size)
    )
    result = optimize.linprog(
        -gain,
        A_ub=law,
        b_ub=np.ones(rows),
        A_eq=total,
        b_eq=np.ones(drafts.size),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise RuntimeError(f"linear program not solved: {result.message}; shrink V or the tree")
    prices = np.maximum(-result.ineqlin.marginals, 0.0)
    margin = gain - law.T @ prices
    least = np.full(drafts.size, -np.inf)
    np.maximum.at(least, owner, margin)
    return TreeOptimum(float(-result.fun), float(least.sum() + prices.sum()))
