"""Do tokens know more of the past than their rows do? Asked where contexts are counted.

Counts by position and last token see a wrong row, not that a token depends on the one before
the last as well, as after a stream that repeats or a buffer that is a call behind. Under the
null the randomised PITs of all tokens in their order are independent, whatever their rows; so
they are paired at short lags, within a trial and from one trial to the next.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.comparing.kernels.kernel import Trial
from simverify.simulators.streamed import Sample
from simverify.stats.counts.independence import MIN_TABLE
from simverify.stats.pits.correlation import MIN_PAIRS

PAIRED = 1 << 16
"""Most tokens whose PITs are paired; fixed beforehand, whatever the run's size."""

LAGS = (1, 2)
"""Places between the tokens of a pair: the row follows the token before, and nothing the second."""


def order_two_tests(trial: Trial, trials: int, alpha: float) -> Iterator[stats.TestResult]:
    """Run the first of ``trials`` trials again, keep their tokens and test their pairs.

    Where every row has one possible token alone, there is nothing that it could know.
    """
    if not ((trial.rows > 0.0).sum(axis=1) > 1).any():
        return
    found = trial.sample(trials, PAIRED)
    yield from lag_tests(pits_of(found, trial.rows, trial.draft_rows), alpha)


def pits_of(found: Sample, target: Floats, draft: Floats) -> Floats:
    """PITs (n,) in q/p order of tokens whose states are rows of ``target`` and ``draft``."""
    order = np.argsort(stats.order_key("ratio", target, draft), axis=1, kind="stable")
    ranked = np.take_along_axis(target, order, axis=1)
    below = np.empty_like(target)
    np.put_along_axis(below, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    cell = found.states, found.tokens
    pits: Floats = np.clip(below[cell] + found.uniforms * target[cell], 0.0, 1.0)
    return pits


def lag_tests(pits: Floats, alpha: float) -> Iterator[stats.TestResult]:
    """Test PITs in the order of their tokens for what they know of each other at each lag.

    All pairs at a lag for a correlation; disjoint ones for a table, which sees any dependence.
    """
    each = alpha / (2 * len(LAGS))
    for lag in LAGS:
        words = "in a row" if lag == 1 else f"{lag} apart"
        if len(pits) - lag >= MIN_PAIRS:
            sums = stats.pair_sums(pits[:-lag], pits[lag:])
            yield stats.pit_correlation(sums, alpha=each, name=f"tokens {words}, correlation")
        first = stats.disjoint_pairs(len(pits), lag, 0)
        if len(first) >= MIN_TABLE:
            table = stats.pit_table_g2(stats.pit_table(pits[first], pits[first + lag]))
            test = stats.g2_test(table, alpha=each, name=f"tokens {words}, 8 x 8 cells")
            yield replace(test, deviation="TV of pairs of PITs")
