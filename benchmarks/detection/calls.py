"""Exact laws of one call at V = 8, by running the catalogue's faulty code on every path.

A call's law is over its outputs, tuples of 1 to gamma + 1 tokens; sampling calls is then one
multinomial, however many there are.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from instances import Prefix, Rows, Tables

from simverify.auditing.enumeration import enumerate_verify
from simverify.faults.base import ratio, residual, tempered

Row = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CallLaw:
    """Probabilities (outputs,) of a call's outputs, and what each adds to the token counts.

    ``cells``: int64 (outputs, gamma+1), the cell context * V + token of each emitted token,
    -1 beyond the end.
    """

    outputs: tuple[Prefix, ...]
    probabilities: Row
    cells: npt.NDArray[np.int64]
    shape: tuple[int, int]

    @property
    def tokens_per_call(self) -> float:
        return float(self.probabilities @ (self.cells >= 0).sum(axis=1))

    def counts(self, calls: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Token counts (contexts, V) of calls (outputs,), or their mean of probabilities."""
        weights = np.repeat(calls, self.cells.shape[1])[self.cells.ravel() >= 0]
        cells = self.cells[self.cells >= 0]
        flat = np.bincount(cells, weights=weights, minlength=self.shape[0] * self.shape[1])
        return flat.reshape(self.shape)

    def sample(self, calls: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """How often each output came in ``calls`` calls, int64 (outputs,)."""
        return rng.multinomial(calls, self.probabilities)


def enumerated(tables: Tables, verify: Callable[..., Any], drafted: Rows | None = None) -> CallLaw:
    """Law of a call of ``verify``, run on every path of every drafted block.

    ``drafted``: rows (contexts, V) that the draft is sampled from, if not those it declares.
    """
    sampled = tables.draft if drafted is None else drafted
    found: dict[Prefix, float] = {}
    for block in itertools.product(range(tables.vocab_size), repeat=tables.gamma):
        target_probs, draft_probs = tables.along(block)
        weight = 1.0
        for i, x in enumerate(block):
            weight *= sampled[tables.index(block[:i])][x]
        law = enumerate_verify(verify, target_probs, draft_probs, np.array(block))
        for output, probability in law.probabilities.items():
            found[output] = found.get(output, 0.0) + weight * probability
    return _law(tables, found)


def shared_noise(tables: Tables) -> CallLaw:
    """Law of a call whose draft and residual are drawn by races with the same noise.

    With noise E_i, exponential, the draft is the first of E_i / q_i and the residual token
    the first of E_i / r_i. For a rejected x (r_x = 0) and y != x the two events have, by
    integrating over both times at a fixed ratio s, probability q_x r_y times the integral of
    c(s)^-2 over 0 < s < r_y / q_y, c(s) = q_x s + r_y + sum over others of max(q_i s, r_i).
    """
    found: dict[Prefix, float] = {}
    reached: dict[Prefix, float] = {(): 1.0}
    for _ in range(tables.gamma):
        kept_so_far: dict[Prefix, float] = {}
        for prefix, mass in reached.items():
            p, q = (rows[tables.index(prefix)] for rows in (tables.target, tables.draft))
            kept = ratio(p, q)
            last = (1.0 - kept) @ race(q, residual(p, q))
            for y in range(tables.vocab_size):
                kept_so_far[(*prefix, y)] = mass * q[y] * kept[y]
                found[(*prefix, y)] = mass * last[y]
        reached = kept_so_far
    for prefix, mass in reached.items():
        for y, bonus in enumerate(tables.target[tables.index(prefix)]):
            found[(*prefix, y)] = mass * bonus
    return _law(tables, found)


def race(q: Row, r: Row) -> Rows:
    """Probability (V, V) that draft x and residual token y come of one race, for q_x > p_x."""
    size = len(q)
    joint = np.zeros((size, size))
    for x in np.flatnonzero(r == 0.0):
        for y in np.flatnonzero(r > 0.0):
            others = [i for i in range(size) if i not in (x, y)]
            ends = r[others] / q[others]
            top = r[y] / q[y]
            knots = np.unique(np.concatenate([[0.0, top], ends[(ends > 0.0) & (ends < top)]]))
            rates = q[x] * knots + r[y]
            rates += np.maximum(np.outer(knots, q[others]), r[others]).sum(axis=1)
            # 1 / c^2 of a linear c integrates to the width over the product of its ends.
            joint[x, y] = q[x] * r[y] * (np.diff(knots) / (rates[:-1] * rates[1:])).sum()
    return joint


def tempered_rows(rows: Rows, temperature: float) -> Rows:
    """Return rows at another temperature."""
    return np.array([tempered(row, temperature) for row in rows])


def _law(tables: Tables, found: dict[Prefix, float]) -> CallLaw:
    outputs = tuple(sorted(found))
    probabilities = np.array([found[output] for output in outputs])
    if abs(probabilities.sum() - 1.0) > 1e-9:
        raise RuntimeError(f"a call's law sums to {probabilities.sum()}: some output is missing")
    cells = np.full((len(outputs), tables.gamma + 1), -1)
    for i, output in enumerate(outputs):
        for j, token in enumerate(output):
            cells[i, j] = tables.index(output[:j]) * tables.vocab_size + token
    return CallLaw(outputs, probabilities / probabilities.sum(), cells, tables.target.shape)
