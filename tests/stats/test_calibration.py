"""Every test's own size, by simulation; and the calibration's own error rate and power."""

import itertools

import numpy as np
import pytest
from scipy import stats
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import (
    PIT_BINS,
    accept,
    acceptance_test,
    duplicates_test,
    g2_test,
    indicator_sums,
    indicator_test,
    pair_sums,
    pit_correlation,
    pit_ks,
    pit_table,
    pit_table_g2,
    score_moments,
    score_sums,
    score_sums_of_contexts,
    score_test,
    transition_g2,
)
from simverify.stats.pits import MIN_PAIRS

LEVEL = 0.5  # of the results, which does not matter here


def indicators(rng):
    p = rng.beta(0.7, 1.5, 400)
    return indicator_test(indicator_sums((rng.random(400) < p).astype(int), p), alpha=LEVEL)


SETUP = np.random.default_rng(1)
ROWS = SETUP.dirichlet(np.full(10, 0.6), 5)
SCORES = accept(ROWS, SETUP.dirichlet(np.full(10, 0.6), 5))
MOMENTS = score_moments(ROWS, SCORES)


def emitted(rng, n):
    """Counts of ``n`` tokens in each context."""
    return np.array([rng.multinomial(n, row) for row in ROWS])


def scores_in_contexts(rng):
    return score_test(score_sums_of_contexts(emitted(rng, 200), ROWS, SCORES), alpha=LEVEL)


def streamed_scores(rng):
    """A chain: each context is the token before, modulo five."""
    n, context, tokens, contexts = 300, 0, [], []
    uniforms = rng.random(n)
    cdf = CDF
    for u in uniforms:
        contexts.append(context)
        tokens.append(min(int(np.searchsorted(cdf[context], u, side="right")), 9))
        context = tokens[-1] % 5
    m, c = MOMENTS, np.array(contexts)
    sums = score_sums(
        SCORES[c, np.array(tokens)], mean=m.mean[c], variance=m.variance[c], third=m.third[c],
        fourth=m.fourth[c], low=m.low[c], high=m.high[c], width=1.0,
    )  # fmt: skip
    return score_test(sums, alpha=LEVEL)


CDF = np.cumsum(ROWS, axis=1)


def many_streamed_scores(rng):
    """Enough tokens for the normal law out to where levels are looked at."""
    sums = score_sums_of_contexts(emitted(rng, 40_000), ROWS, SCORES)
    m = MOMENTS
    streamed = score_sums(
        np.array([sums.deviation]), mean=[0.0], variance=[sums.variance], third=[sums.third],
        fourth=[sums.fourth], low=m.low[:1], high=m.high[:1], width=1.0,
    )  # fmt: skip
    return score_test(streamed, alpha=LEVEL)


def pits(rng):
    bins = np.bincount((rng.random(300) * PIT_BINS).astype(int), minlength=PIT_BINS)
    return pit_ks(bins, alpha=LEVEL)


def correlations(rng):
    u = rng.random(MIN_PAIRS + 1)
    return pit_correlation(pair_sums(u[:-1], u[1:]), alpha=LEVEL)


def pit_pairs(rng):
    u, v = rng.random((2, 640))
    return g2_test(pit_table_g2(pit_table(u, v)), alpha=LEVEL)


def duplicates(rng):
    a, b = (rng.random((2, 500, 1)) > CDF[:1]).sum(axis=2)
    chance = float((ROWS[0] ** 2).sum())
    return duplicates_test(int((a == b).sum()), 500, chance, alpha=LEVEL)


def transitions(rng):
    return g2_test(transition_g2(emitted(rng, 300), ROWS), alpha=LEVEL)


def acceptances(rng):
    tau = rng.binomial(3, 0.6, 400)
    curve = stats.binom.sf([0, 1, 2], 3, 0.6)
    tails = [int((tau > level).sum()) for level in range(3)]
    return acceptance_test(tails, 400, curve, curve, alpha=LEVEL)


# Sizes over levels, from below where a law is discrete or a bound; what (band, share of the
# short version's runs) each is held to.
CASES = {
    "indicators": (indicators, (0.6, 1.0)),
    "scores in contexts": (scores_in_contexts, (0.6, 1.0)),
    "streamed scores": (streamed_scores, (0.0, 1.0)),
    "many streamed scores": (many_streamed_scores, (0.8, 1.0)),
    "pits": (pits, (0.7, 1.0)),
    "correlations": (correlations, (0.8, 1.0)),
    "pit pairs": (pit_pairs, (0.8, 1.07)),
    "duplicates": (duplicates, (0.2, 1.0)),
    "transitions": (transitions, (0.8, 1.07)),
    "acceptances": (acceptances, (0.1, 1.0)),
}


def simulation(draw, seed):
    """``simulate`` of :func:`wrong_size`: fresh log p-values at every call."""
    rng = np.random.default_rng(seed)
    return lambda runs: [draw(rng).log_pvalue for _ in range(runs)]


@pytest.mark.distribution
@pytest.mark.parametrize("case", CASES)
@pytest.mark.thorough
def test_size(case):
    draw, band = CASES[case]
    assert wrong_size(simulation(draw, 131), runs=500, band=band) is None


@pytest.mark.slow
@pytest.mark.distribution
@pytest.mark.parametrize("case", CASES)
def test_size_at_length(case):
    draw, band = CASES[case]
    assert wrong_size(simulation(draw, 132), runs=10_000, band=band) is None


def uniform_levels(scale, seed):
    """Log p-values whose size is ``scale`` times nominal."""
    rng = np.random.default_rng(seed)
    return lambda runs: np.log(rng.random(runs) / scale)


@pytest.mark.distribution
@pytest.mark.parametrize("scale", [0.8, 0.9, 1.0])
def test_right_sizes_are_not_called_wrong(scale):
    assert wrong_size(uniform_levels(scale, 133), runs=20_000) is None


@pytest.mark.parametrize(("scale", "runs"), [(4.0, 500), (1.3, 20_000), (0.55, 20_000)])
def test_wrong_sizes_are_called_wrong(scale, runs):
    """Negative control: what the short version sees, and what the long one."""
    found = wrong_size(uniform_levels(scale, 134), runs=runs)
    assert found is not None
    assert (found.below > found.expected[1]) == (scale > 1)


@pytest.mark.distribution
def test_a_looser_rate_is_met_by_the_calibration_itself():
    """At a rate of .2 a right size is called wrong in a fifth of all calibrations at most."""
    called = sum(
        wrong_size(uniform_levels(1.0, seed), runs=500, band=(1.0, 1.0), alpha=0.2) is not None
        for seed in range(1000)
    )
    assert stats.binom.sf(called - 1, 1000, 0.2) > ALPHA
    assert called > 10


def test_power_of_the_short_version():
    """A p-value that is an eighth of the right one in its tail is found, at 1e-9."""
    rng = np.random.default_rng(135)
    levels = itertools.repeat(lambda runs: 2 * np.log(rng.random(runs)), 5)
    assert all(wrong_size(draw, runs=500) is not None for draw in levels)
