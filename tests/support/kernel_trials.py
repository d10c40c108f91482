"""Trials of compiled kernels, and mutants of them that emit another law."""

import numpy as np

from simverify.battery.battery import kernel_shares
from simverify.comparing.curves import acceptance_curves
from simverify.comparing.sampled import KernelTrial
from simverify.models.base import MarkovModel
from simverify.simulators.run import (
    PIT_BINS,
    Counts,
    cell_of_token,
    merge_cells,
    model_tables,
    simulate,
)
from simverify.verifiers import VERIFIERS


def trial(model, rule, *, gamma=3, alpha=1e-6, detect=0.01):
    """Trial of ``rule`` on ``model``, as ``compare`` makes it."""
    best = "greedy" if VERIFIERS[rule].contract == "step" else "block"
    chosen = {name: VERIFIERS[name] for name in (rule, best)}
    curves = acceptance_curves(model, chosen, gamma, seed=1, threads=1)
    return KernelTrial(
        VERIFIERS[rule], model, model_tables(model), gamma, 1, 1, curves[rule], curves[best],
        alpha, detect,
    )  # fmt: skip


def shares(alpha):
    """Shares of a kernel's tests that has ``alpha`` to itself."""
    return kernel_shares(alpha, calls=False)


def pairs_moved(rows, tv, seed):
    """Move mass within pairs of tokens (2i, 2i+1), in random directions: mean TV ``tv``.

    In token order what one moves the next moves back; in q/p order the directions cancel.
    """
    rng = np.random.default_rng(seed)
    even, odd = rows[:, 0::2], rows[:, 1::2]
    least = np.minimum(even, odd[:, : even.shape[1]])
    share = tv / least.sum(axis=1).mean()
    assert share < 1
    moved = share * least * np.where(rng.random(least.shape) < 0.5, -1, 1)
    wrong = rows.copy()
    wrong[:, 0::2] += moved
    wrong[:, 1::2] -= moved
    return wrong


def emitted_by(run, target, trials):
    """Counts of a token kernel that follows the rows ``target``, judged on the trial's own.

    The kernel counts every token; cells and PITs are worked out here, by numpy.
    """
    states = len(target) - 1
    assert isinstance(run.model, MarkovModel)
    own = MarkovModel(
        "mutant", target[states], target[:states], run.model.draft_start, run.model.draft_rows
    )
    shape = (run.positions, states + 1, run.model.vocab_size)
    honest = simulate(
        model_tables(own), "token", run.gamma, trials, seed=3, threads=1, transition_shape=shape
    )
    rng = np.random.default_rng(5)
    pits = np.zeros((2, run.positions, PIT_BINS), np.int64)
    ratios = np.vstack([run.model.draft_rows, run.model.draft_start]) / run.rows
    orders = np.argsort(ratios, axis=1, kind="stable"), np.tile(np.arange(shape[2]), (shape[1], 1))
    for which, order in enumerate(orders):
        ordered = np.take_along_axis(run.rows, order, axis=1)
        below = np.empty_like(ordered)
        np.put_along_axis(below, order, np.cumsum(ordered, axis=1) - ordered, axis=1)
        for position, table in enumerate(honest.transitions):
            state, token = (np.repeat(index, table[table > 0]) for index in np.nonzero(table))
            u = below[state, token] + rng.random(len(state)) * run.rows[state, token]
            bins = np.minimum((u * PIT_BINS).astype(int), PIT_BINS - 1)
            pits[which, position] = np.bincount(bins, minlength=PIT_BINS)
    cells = cell_of_token(run.model.vocab_size, run.cells)
    tables = np.array([merge_cells(table, cells) for table in honest.transitions])
    return Counts(trials, honest.accepted, honest.lengths, tables, pits, 0)
