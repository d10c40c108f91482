"""One table for all tests: what a deviation costs in each, or what a budget finds in each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simverify.stats._checks import open_unit, positive_int
from simverify.stats.counts.g2 import g2_min_detectable, g2_samples
from simverify.stats.means.binomial import acceptance_min_detectable, acceptance_samples
from simverify.stats.pits.correlation import (
    MIN_PAIRS,
    correlation_min_detectable,
    correlation_samples,
)
from simverify.stats.pits.pit import PIT_BINS, ks_min_detectable, ks_samples
from simverify.stats.planning import formulas as planning
from simverify.stats.planning.budget import BATTERY, split_alpha
from simverify.stats.planning.looks import LOOKS
from simverify.stats.ratios.ratio_tests import eprocess_min_detectable, eprocess_samples

CELLS = 75
"""Faults times strengths that share the alpha of the likelihood ratios."""
SCORES = 5
"""Scores in the bank, each per slot and pooled."""


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One test or certificate of a plan.

    Attributes
    ----------
    test : str
    level : float
        Share of alpha that it decides at; beta or delta where it refutes or certifies.
    samples : float
        Samples that find ``deviation`` with the promised power (that refute or certify it on
        average); inf if none do.
    unit : str
        What a sample is: tokens or blocks.
    deviation : float
        The deviation found; inf if these samples promise none.
    measure : str
        What the deviation is, and what is assumed of it.
    """

    test: str
    level: float
    samples: float
    unit: str
    deviation: float
    measure: str


@dataclass(frozen=True, kw_only=True)
class PlanTable:
    """All tests of one run at once, in the order of the battery."""

    alpha: float
    power: float
    vocab_size: int
    gamma: int
    rows: tuple[PlanRow, ...]


@dataclass(frozen=True)
class _Line:
    test: str
    level: float
    unit: str
    measure: str
    samples: Callable[[float], float]
    deviation: Callable[[int], float]


def plan_table(
    *,
    alpha: float = 1e-6,
    power: float = 0.9,
    deviation: float = 0.01,
    vocab_size: int,
    gamma: int,
    contexts: int = 1,
) -> PlanTable:
    """Samples that each test needs to find ``deviation``.

    Levels are those at the planned end of a run with four looks, whose alpha is split as the
    battery's. Where the deviation is a TV distance the samples suffice for every law at that
    distance that the row's measure allows: those of a named fault at d use KL >= 2 d^2
    (Pinsker), which most faults beat.

    Parameters
    ----------
    alpha, power : float
        False-alarm rate of the whole run, and the power promised.
    deviation : float
        Mean one-token TV distance; of accepted tokens, a shift of one Pr(tau >= l).
    vocab_size, gamma : int
    contexts : int
        Different prefixes that repeat, over all slots, whose transitions are counted.

    Raises
    ------
    ValueError
        If a rate or the deviation is outside (0, 1), V < 2, or gamma or contexts is below 1.
    """
    deviation = open_unit("deviation", deviation)
    lines = _lines(alpha, power, vocab_size, gamma, contexts)
    rows = [_row(line, line.samples(deviation), deviation) for line in lines]
    return _table(alpha, power, vocab_size, gamma, rows)


def budget_table(
    *,
    samples: int,
    alpha: float = 1e-6,
    power: float = 0.9,
    vocab_size: int,
    gamma: int,
    contexts: int = 1,
) -> PlanTable:
    """Deviation that each test finds with ``samples`` tokens or blocks; as :func:`plan_table`.

    Raises
    ------
    ValueError
        If a rate is outside (0, 1), V < 2, or samples, gamma or contexts is below 1.
    """
    samples = positive_int("samples", samples)
    lines = _lines(alpha, power, vocab_size, gamma, contexts)
    rows = [_row(line, samples, line.deviation(samples)) for line in lines]
    return _table(alpha, power, vocab_size, gamma, rows)


def _row(line: _Line, samples: float, deviation: float) -> PlanRow:
    return PlanRow(
        test=line.test,
        level=line.level,
        samples=samples,
        unit=line.unit,
        deviation=deviation if deviation <= 1.0 else math.inf,
        measure=line.measure,
    )


def _table(
    alpha: float, power: float, vocab_size: int, gamma: int, rows: Sequence[PlanRow]
) -> PlanTable:
    return PlanTable(alpha=alpha, power=power, vocab_size=vocab_size, gamma=gamma, rows=tuple(rows))


def _lines(
    alpha: float, power: float, vocab_size: int, gamma: int, contexts: int
) -> tuple[_Line, ...]:
    vocab_size, gamma = positive_int("vocab_size", vocab_size, 2), positive_int("gamma", gamma)
    cells = positive_int("contexts", contexts) * vocab_size
    shares = split_alpha(open_unit("alpha", alpha), BATTERY)
    power, last = open_unit("power", power), LOOKS[-1][1]
    # The gate at any time and the test at the planned end halve the share of the ratios.
    ratio = shares["likelihood ratios"] / 2.0
    score = last * shares["scores"] / (SCORES * (gamma + 2))
    # Three orders of PITs, transitions, tau, and two kinds of independence.
    rest = last * shares["rest"] / 7.0
    half, beta, delta = [0.5] * gamma, 1e-3, 1e-3
    return (
        _Line(
            "named fault, at any time",
            ratio / CELLS,
            "tokens",
            "TV of a named fault",
            lambda d: eprocess_samples(2 * d * d, alpha=ratio, weight=1 / CELLS, power=power),
            lambda n: math.sqrt(
                eprocess_min_detectable(n, alpha=ratio, weight=1 / CELLS, power=power) / 2
            ),
        ),
        _Line(
            "named fault, planned end",
            ratio / CELLS,
            "tokens",
            "TV of a named fault",
            lambda d: planning.ratio_samples(2 * d * d, alpha=ratio / CELLS, power=power),
            lambda n: math.sqrt(
                planning.ratio_min_detectable(n, alpha=ratio / CELLS, power=power) / 2
            ),
        ),
        _Line(
            "score 1{q>p}",
            score,
            "tokens",
            "mean TV, if P' - P changes sign where q = p",
            # The indicator of q > p has a variance of 1/4 at most: chi2 is 4 d^2 or more.
            lambda d: planning.mixing_samples(1.0, 4 * d * d, alpha=score, power=power),
            lambda n: planning.mixing_min_detectable(n, 4.0, alpha=score, power=power),
        ),
        _Line(
            "PIT-KS, q/p order",
            rest,
            "tokens",
            "mean TV, if P'/P is monotone in q/p",
            lambda d: ks_samples(d, alpha=rest, power=power) if d > 1 / PIT_BINS else math.inf,
            lambda n: ks_min_detectable(n, alpha=rest, power=power),
        ),
        _Line(
            "transitions G2",
            rest,
            "tokens",
            "mean TV, every kind, in repeated contexts",
            lambda d: g2_samples(d, cells - contexts, alpha=rest, power=power),
            lambda n: g2_min_detectable(cells - contexts, n, alpha=rest, power=power),
        ),
        _Line(
            "pairs, correlation",
            rest,
            "tokens",
            "correlation of the PITs of tokens that follow each other",
            lambda d: correlation_samples(d, alpha=rest, power=power),
            lambda n: (
                correlation_min_detectable(n, alpha=rest, power=power)
                if n >= MIN_PAIRS
                else math.inf
            ),
        ),
        _Line(
            "acceptance",
            rest,
            "blocks",
            "shift of one Pr(tau >= l) from 1/2",
            # Rates leave room for a shift of 1/2 at most; a larger one is found no later.
            lambda d: acceptance_samples(min(d, 0.49), half, half, alpha=rest, power=power),
            lambda n: acceptance_min_detectable(n, half, half, alpha=rest, power=power),
        ),
        _Line(
            "named fault refuted",
            beta,
            "tokens",
            "TV of a named fault, on healthy code",
            lambda d: planning.refutation_samples(2 * d * d, beta=beta),
            lambda n: math.sqrt(planning.refutation_min_detectable(n, beta=beta) / 2),
        ),
        _certificate("plug-in", "mean TV, every kind, in repeated contexts", cells, delta),
        _certificate("monotone", "mean TV, if P'/P is monotone in q/p", 2, delta),
    )


def _certificate(method: planning.TVBound, measure: str, cells: int, delta: float) -> _Line:
    return _Line(
        f"certificate, {method}",
        delta,
        "tokens",
        f"{measure}, on healthy code",
        lambda d: planning.certificate_samples(d, method=method, cells=cells, delta=delta),
        lambda n: planning.certificate_bound(n, method=method, cells=cells, delta=delta),
    )
