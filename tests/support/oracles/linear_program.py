"""The two linear programs that say what any verifier can reach, on tiny instances.

Every rule for one drafted block is a choice of a(x, t, y) = Pr(X^gamma = x, tau = t, next token
= y). It is usable in the plain loop when the tokens of the call, continued by the target,
follow the target's law. Maximising E[tau] over all such rules gives block's value
(Sun et al. 2025, theorem 2). Without that constraint on the continuation only the joint law of
x and the emitted sequence matters, and the value is the coupling bound, sum of min(Ms, Mb).

Numerics: HiGHS at its defaults is off by up to 2.7e-6 at V = 4, gamma = 4. Variables are
conditional on x (divided by Ms), rows divided by Mb, and the dual is repaired: given the
prices of the rows, those of the drafts are set to the least feasible value.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

Floats = npt.NDArray[np.float64]
Row = Callable[[Sequence[int]], Floats]
Prefix = tuple[int, ...]

_MOST_VARIABLES = 200_000


@dataclass(frozen=True)
class LinearProgramOptimum:
    """``value``: HiGHS's optimum, its feasibility tolerance 1e-10. ``upper``: repaired dual.

    ``upper`` bounds the true optimum but for the rounding of float64; ``value`` may err either
    way, so a rule's own E[tau] is the better lower bound.
    """

    value: float
    upper: float


def plain_loop_optimum(target: Row, draft: Row, gamma: int) -> LinearProgramOptimum:
    """Largest E[tau] of any lossless rule without carried state.

    Parameters
    ----------
    target, draft : callable
        ``target(prefix)`` and ``draft(prefix)`` give float64 rows (V,) that sum to 1, for any
        tuple of token ids; the methods of a model fit. Entries of .02 and more keep the two
        figures of the result within 1e-9 of each other.
    gamma : int
        Draft length. V^(gamma+1) (gamma+1) variables: V = 3, gamma = 3 or V = 4, gamma = 4.

    Returns
    -------
    LinearProgramOptimum

    Raises
    ------
    ValueError
        gamma below 1, or an instance of more than 200,000 variables.
    RuntimeError
        HiGHS did not reach an optimum.
    """
    size = _optimum_iv(target, gamma, lambda v: v ** (gamma + 1) * (gamma + 1))
    drafts = _law(draft, size, gamma)
    # Pr(o^(n)) of every prefix, to divide by: an emitted o^(t+1) is continued by the target.
    emitted = {o: w for n in range(1, gamma + 2) for o, w in _law(target, size, n).items()}
    outputs = [o for o in emitted if len(o) == gamma + 1]
    below: dict[Prefix, list[int]] = {}
    for row, o in enumerate(outputs):
        for n in range(1, gamma + 2):
            below.setdefault(o[:n], []).append(row)

    columns = [
        (index, float(t), mass / emitted[(*x[:t], y)], below[(*x[:t], y)])
        for index, (x, mass) in enumerate(drafts.items())
        for t in range(gamma + 1)
        for y in range(size)
        if (*x[:t], y) in emitted
    ]
    return _solve(np.array(list(drafts.values())), columns, len(outputs))


def coupling_optimum(target: Row, draft: Row, gamma: int) -> LinearProgramOptimum:
    """Largest E[common prefix of x and o] over all couplings of Ms(x^gamma) and Mb(o^gamma).

    Parameters, result and errors as in :func:`plain_loop_optimum`; V^(2 gamma) variables.
    """
    size = _optimum_iv(target, gamma, lambda v: v ** (2 * gamma))
    drafts = _law(draft, size, gamma)
    outputs = _law(target, size, gamma)
    columns = [
        (index, float(_common(x, o)), mass / weight, [row])
        for index, (x, mass) in enumerate(drafts.items())
        for row, (o, weight) in enumerate(outputs.items())
    ]
    return _solve(np.array(list(drafts.values())), columns, len(outputs))


def _law(row: Row, size: int, length: int) -> dict[Prefix, float]:
    """Probability of every sequence of ``length`` tokens, zeros left out."""
    law: dict[Prefix, float] = {(): 1.0}
    for _ in range(length):
        law = {
            (*prefix, token): mass * p
            for prefix, mass in law.items()
            for token, p in zip(range(size), map(float, row(prefix)), strict=True)
            if mass * p > 0
        }
    return law


def _common(x: Prefix, o: Prefix) -> int:
    return next((i for i, (a, b) in enumerate(zip(x, o, strict=True)) if a != b), len(x))


def _solve(
    drafts: Floats, columns: Sequence[tuple[int, float, float, Iterable[int]]], rows: int
) -> LinearProgramOptimum:
    """Maximise the sum of Ms(x) gain b over b >= 0 with sum b = 1 per draft, rows <= 1.

    A column is (draft x, gain, coefficient, the rows it enters).
    """
    owner = np.array([index for index, _, _, _ in columns])
    gain = drafts[owner] * np.array([value for _, value, _, _ in columns])
    entries = [
        (row, column, coefficient)
        for column, (_, _, coefficient, its_rows) in enumerate(columns)
        for row in its_rows
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
        raise RuntimeError(f"linear program not solved: {result.message}; shrink V or gamma")
    prices = np.maximum(-result.ineqlin.marginals, 0.0)
    margin = gain - law.T @ prices
    least = np.full(drafts.size, -np.inf)
    np.maximum.at(least, owner, margin)
    return LinearProgramOptimum(float(-result.fun), float(least.sum() + prices.sum()))


def _optimum_iv(target: Row, gamma: int, variables: Callable[[int], int]) -> int:
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}: pass a draft length of 1 or more")
    size = len(target(()))
    if variables(size) > _MOST_VARIABLES:
        raise ValueError(
            f"V = {size}, gamma = {gamma} needs {variables(size)} variables, at most "
            f"{_MOST_VARIABLES} are solved: shrink V or gamma"
        )
    return size
