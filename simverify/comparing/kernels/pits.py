"""Emitted tokens where contexts are too many: randomised PITs, and cells of tokens beside.

PITs in q/p and in token order see the deviations that are monotone in one of them, at any
vocabulary. A Markov model's tokens are counted as well, after each row: every token, or
cells dealt out by a hash, as fine as a table has room for; and these merged to 64. What the
counts find is stated beside the promise, which rests on the PITs. So is what the first
tokens say with their whole rows (``streamed``): named faults, scores, a third order, pairs.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy.typing as npt

from simverify import stats
from simverify.battery.judgement import Judgement, rejections
from simverify.battery.localise import Evidence, Located, locate
from simverify.battery.naming import Named
from simverify.battery.shares import pit_shares
from simverify.comparing.kernels.kernel import Trial
from simverify.comparing.kernels.streamed import DESCENDING, Streamed
from simverify.simulators.run import PIT_BINS, Counts
from simverify.simulators.tables import COARSE_CELLS, coarser, merged, token_cells

DEVIATION = "mean one-token TV, monotone in q/p or in token order"

ORDERS = ("q/p order", "token order")


def judge_pits(
    trial: Trial, counts: Counts, shares: dict[str, float], first: Streamed
) -> Judgement:  # fmt: skip
    """Test the PITs of every position, the first tokens, and for a Markov model cells of tokens.

    ``shares`` as :func:`~simverify.battery.shares.kernel_shares` gives them.
    """
    shares = shares | pit_shares(shares["output"], cells=trial.markov)
    findings = []
    if counts.unsupported:
        findings.append(f"support: {counts.unsupported} tokens of probability 0 emitted")
    each = _each(trial, shares)
    by_order = [
        [
            stats.pit_ks(bins, alpha=each, name=f"PIT in {order}, {trial.position(position)}")
            for position, bins in enumerate(histograms)
            if bins.any()
        ]
        for order, histograms in zip(ORDERS, counts.pits, strict=True)
    ]
    cells = list(_cells(trial, counts, shares)) if trial.markov else []
    streamed = first.tests(shares)
    tests = [*by_order[0], *by_order[1], *cells, *streamed]
    findings += rejections(tests)
    named = first.named(diagnose=bool(findings) and trial.by_slot)
    beside = [*cells, *(test for test in streamed if test.name == DESCENDING)]
    return Judgement(
        tests=tuple(tests),
        findings=tuple(findings),
        # Both orders have the same tokens and level, so they find the same distance.
        detectable=_weighted([(test.n, test.min_detectable) for test in by_order[0]]),
        deviation=DEVIATION,
        beside=tuple((test.deviation, test.min_detectable) for test in beside),
        named=named,
        located=_located(trial, counts, by_order, named) if findings else None,
    )


def _located(
    trial: Trial, counts: Counts, by_order: list[list[stats.TestResult]], named: Named
) -> Located:  # fmt: skip
    """Where the PITs of the slots and the named faults point."""
    by_slot = [0.0] * trial.positions
    # Both orders have the same positions.
    (seen,) = counts.pits[0].any(axis=1).nonzero()
    for tests in by_order:
        for position, test in zip(seen, tests, strict=True):
            by_slot[position] = min(by_slot[position], test.log_pvalue)
    return locate(
        Evidence(
            independence=False, tokens=True, lossy=False, by_slot=tuple(by_slot),
            bonus=trial.gamma if trial.by_slot else None, named=named,
        )
    )  # fmt: skip


def predict_pits(trial: Trial, pilot: Counts, trials: int, shares: dict[str, float]) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the positions a pilot met."""
    each = _each(trial, pit_shares(shares["output"], cells=trial.markov))
    totals = pilot.pits[0].sum(axis=1) * (trials / pilot.trials)
    return _weighted(
        [
            (n, stats.ks_min_detectable(n, alpha=each, bins=PIT_BINS))
            for n in (int(total) for total in totals)
            if n > 0
        ]
    )


def _each(trial: Trial, shares: dict[str, float]) -> float:
    return shares["pits"] / (len(ORDERS) * trial.positions)


def _weighted(parts: list[tuple[int, float]]) -> float:
    """Mean TV that must exceed some position's own limit, whichever it falls on."""
    total = sum(n for n, _ in parts)
    return sum(n * min(limit, 1.0) for n, limit in parts) / total


def _cells(trial: Trial, counts: Counts, shares: dict[str, float]) -> Iterator[stats.TestResult]:
    """Transitions between rows and cells of tokens, pooled over positions."""
    vocab_size = trial.model.vocab_size
    rows = merged(trial.rows, token_cells(vocab_size, trial.cells))
    coarse = coarser(trial.cells, vocab_size)
    tables = [table for table in counts.transitions if table.any()]
    yield from _transitions(
        [(merged(table, coarse), merged(rows, coarse)) for table in tables],
        shares["coarse"],
        f"between {COARSE_CELLS} cells of tokens",
    )
    if trial.cells > COARSE_CELLS:
        every = trial.cells == vocab_size
        words = "of every token" if every else f"between {trial.cells} cells of tokens"
        yield from _transitions([(table, rows) for table in tables], shares["fine"], words)


def _transitions(
    tables: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], alpha: float, words: str
) -> Iterator[stats.TestResult]:
    g2 = reduce(add, (stats.transition_g2(table, rows) for table, rows in tables))
    if g2.df > 0:
        test = stats.g2_test(g2, alpha=alpha, name=f"transitions {words}")
        yield replace(test, deviation=f"mean one-token TV {words}")
