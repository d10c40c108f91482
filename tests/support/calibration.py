"""Checks a test's own size by simulation, with a false-alarm rate of its own.

Gandy and Scott, "Unit testing for MCMC and other Monte Carlo methods", arXiv:2001.06465,
algorithm 2: most rounds end at once; what looks odd is looked at again, with more runs and on
fresh ones, so that a wrong size is told from bad luck. Whatever the size, a right one is
called wrong with probability ALPHA at most.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats
from support.false_alarms import ALPHA

GROWTH = 4
"""How many times more runs every round has than the first."""


@dataclass(frozen=True)
class WrongSize:
    """A level at which p-values are smaller, or larger, too often."""

    level: float
    below: int
    runs: int
    expected: tuple[float, float]


def wrong_size(simulate, *, runs, levels=(1e-2, 1e-3), band=(0.8, 1.0), rounds=4, alpha=ALPHA):
    """Return the first level whose size is proven outside its band, None if none is.

    ``simulate(n)`` returns n fresh log p-values under the null. ``band`` bounds the size over
    the nominal level; (0, 1) for discrete or conservative tests.
    """
    beta = alpha / rounds
    gamma = beta ** (1 / rounds)
    for i in range(rounds):
        log_p = np.asarray(simulate(runs if i == 0 else GROWTH * runs))
        checks = [_check(log_p, level, band) for level in levels]
        worst = min(checks, key=lambda check: check[0])
        chance = min(1.0, worst[0] * 2 * len(levels))
        if chance <= beta:
            return worst[1]
        if chance > gamma + beta:
            return None
        beta /= gamma
    return None


def _check(log_p, level, band):
    """Smaller p-value of the two one-sided tests that the size is within its band."""
    n, below = log_p.size, int((log_p < np.log(level)).sum())
    low, high = band[0] * level, band[1] * level
    chance = min(stats.binom.sf(below - 1, n, high), stats.binom.cdf(below, n, low))
    return chance, WrongSize(level, below, n, (n * low, n * high))
