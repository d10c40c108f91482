"""The sublinear step against the plain one that reads the whole row, by vocabulary size.

A step is what a rejection costs the block rule: the residual mass sum of max(w p - q, 0) and
a draw from it. The plain one is compiled too: running sums of the row, and how many of
them the uniform reaches.
"""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from simverify.models import markov
from simverify.simulators.kernels.access import correct, mass
from simverify.simulators.run import markov_tables

VOCABULARIES = (4, 8, 16, 64, 1024)


@njit(nogil=True, error_model="numpy")
def sublinear_steps(tables: Any, states: Any, weights: Any, uniforms: Any) -> Any:
    """Take one step per entry (n,); returns the sum of masses and of drawn tokens."""
    total = 0.0
    drawn = 0
    for i in range(states.shape[0]):
        total += mass(tables, states[i], weights[i], 1.0)
        drawn += correct(tables, states[i], weights[i], 1.0, uniforms[i])
    return total, drawn


@njit(nogil=True, error_model="numpy")
def row_steps(p: Any, q: Any, states: Any, weights: Any, uniforms: Any) -> Any:
    """Take the same steps on rows p, q (S, V), in token order."""
    total = 0.0
    drawn = 0
    size = p.shape[1]
    sums = np.empty(size)
    for i in range(states.shape[0]):
        w = weights[i]
        target = p[states[i]]
        draft = q[states[i]]
        residual = 0.0
        for x in range(size):
            residual += max(w * target[x] - draft[x], 0.0)
            sums[x] = residual
        total += residual
        if not residual > 0.0:
            for x in range(size):
                residual += target[x]
                sums[x] = residual
        goal = uniforms[i] * residual
        token = 0
        for x in range(size):
            token += sums[x] <= goal
        drawn += token
    return total, drawn


def time_steps(vocab_size: int, steps: int, repetitions: int) -> tuple[list[float], list[float]]:
    """Nanoseconds a step on markov-V, sublinear and by rows, in turn; (repetitions,) each."""
    model = markov(vocab_size)
    tables = markov_tables(model)
    rng = np.random.default_rng(vocab_size)
    states = rng.integers(0, model.states, steps)
    weights = 1 - rng.random(steps)  # (0, 1]
    uniforms = rng.random(steps)
    rows = np.ascontiguousarray(tables.target), np.vstack([model.draft_rows, model.draft_start])
    _check(tables, *rows, states, weights, uniforms)
    sublinear, plain = [], []
    for _ in range(repetitions):
        sublinear.append(_nanoseconds(sublinear_steps, (tables, states, weights, uniforms)))
        plain.append(_nanoseconds(row_steps, (*rows, states, weights, uniforms)))
    return sublinear, plain


def _check(
    tables: Any,
    p: npt.NDArray[np.float64],
    q: npt.NDArray[np.float64],
    states: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    uniforms: npt.NDArray[np.float64],
) -> None:
    """Both ways must find the same masses. Compiles both, too."""
    few = slice(0, 1000)
    fast, _ = sublinear_steps(tables, states[few], weights[few], uniforms[few])
    slow, _ = row_steps(p, q, states[few], weights[few], uniforms[few])
    if not abs(fast - slow) <= 1e-9 * len(states[few]):
        raise RuntimeError(f"residual masses differ: sublinear {fast!r}, rows {slow!r}")


def _nanoseconds(run: Any, arguments: tuple[Any, ...]) -> float:
    clock = time.perf_counter()
    run(*arguments)
    return (time.perf_counter() - clock) / len(arguments[-1]) * 1e9
