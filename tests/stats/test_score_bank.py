"""The score test: its size from exact laws, its power, its balls."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import accept, score_min_detectable, score_sums_of_contexts, score_test
from simverify.stats.scores import ScoreSumLaw

LEVELS = (1e-2, 1e-3, 1e-6, 1e-9)


def lattice_law(rows, scores, totals):
    """Probabilities of the sum of whole scores, by repeated convolution; index is the sum."""
    law = np.ones(1)
    for row, score, n in zip(rows, scores, totals, strict=True):
        one = np.bincount(score, row)
        for _ in range(n):
            law = np.convolve(law, one)
    return law


CASES = {
    "two values": ([[0.2, 0.8]], [[0, 1]], [60]),
    "rare": ([[0.01, 0.99]], [[1, 0]], [300]),
    "three values": ([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], [[0, 1, 4], [3, 0, 1]], [40, 25]),
    "skewed": ([[0.02, 0.18, 0.8]], [[9, 2, 0]], [200]),
    "larger": ([[0.1, 0.2, 0.3, 0.4]], [[0, 3, 5, 6]], [1500]),
}


def tails(case, streamed):
    """Sums whose exact tail is between 1e-11 and .2, that tail, and the log p-value; each side.

    From the mean outwards. The exact tail is of one side alone.
    """
    rows, scores, totals = (np.array(part) for part in CASES[case])
    law = lattice_law(rows, scores, totals)
    counts = np.zeros(rows.shape, dtype=int)
    counts[:, 0] = totals
    sums = score_sums_of_contexts(counts, rows, scores)
    mean = float((totals * (rows * scores).sum(axis=1)).sum())
    null = replace(sums, tables=None) if streamed else sums
    upper, lower = np.cumsum(law[::-1])[::-1], np.cumsum(law)
    for tail, order in ((upper, 1), (lower, -1)):
        # Points that the lattice leaves out repeat their neighbour's tail.
        near = np.flatnonzero((tail > 1e-11) & (tail < 0.2) & (law > 0))[::order]
        log_p = [score_test(replace(null, deviation=k - mean), alpha=0.01).log_pvalue for k in near]
        yield tail[near], np.array(log_p)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.thorough
def test_true_size_is_never_above_nominal(case, streamed):
    sides = list(tails(case, streamed))
    for alpha in LEVELS:
        size = 0.0
        for tail, log_p in sides:
            rejected = log_p < math.log(alpha)
            size += tail[rejected].max(initial=0.0)
        assert size <= alpha
    for _, log_p in sides:
        # It falls outwards, also where one law takes over from another.
        assert (np.diff(log_p) <= 1e-9).all()


@pytest.mark.parametrize("case", CASES)
def test_exact_law_is_sharp(case):
    """Twice the exact tail four points nearer the mean is above the p-value."""
    for tail, log_p in tails(case, streamed=False):
        if log_p.size > 8:
            assert (log_p[4:] <= np.log(2 * tail[:-4]) + 0.02).all()


def markov(tokens, seed=91):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(16, 0.5), 8)
    drafts = 0.6 * rows + 0.4 * rng.dirichlet(np.full(16, 0.5), 8)
    scores = accept(rows, drafts)
    return rng, rows, drafts, scores, np.full(8, tokens // 8)


def sample(rng, rows, totals):
    return np.array([rng.multinomial(n, row) for n, row in zip(totals, rows, strict=True)])


@pytest.mark.distribution
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("tokens", [4000, 400_000])
@pytest.mark.thorough
def test_power_at_the_planned_shift(streamed, tokens):
    """A mixture with the draft whose mean score is off by the promise."""
    rng, rows, drafts, scores, totals = markov(tokens)
    alpha = 1e-6

    def sums(counts):
        whole = score_sums_of_contexts(counts, rows, scores)
        return replace(whole, tables=None) if streamed else whole

    shift = score_min_detectable(sums(sample(rng, rows, totals)), alpha=alpha)
    gain = ((drafts - rows) * scores).sum(axis=1).mean()
    other = rows + (shift / gain) * (drafts - rows)
    found = sum(
        score_test(sums(sample(rng, other, totals)), alpha=alpha).rejected for _ in range(300)
    )
    assert stats.binom.cdf(found, 300, 0.9) > ALPHA
    assert found < 300


def test_planning():
    rng, rows, _, scores, totals = markov(8000)
    sums = score_sums_of_contexts(sample(rng, rows, totals), rows, scores)
    for ball in (0.0, 0.001):
        z = stats.norm.isf(5e-7) + stats.norm.isf(0.1)
        moved = sums.variance + ball * sums.width * sums.ranges
        expected = (z * np.sqrt(moved) + ball * sums.ranges) / sums.n
        found = score_min_detectable(sums, alpha=1e-6, ball=ball)
        assert found == pytest.approx(expected, rel=0.03)


def test_a_ball_swallows_its_own_shift():
    rng, rows, drafts, scores, totals = markov(10**6)
    other = rows + 0.01 * (drafts - rows)
    radius = float(np.abs(other - rows).sum(axis=1).max() / 2)
    for streamed in (False, True):
        sums = score_sums_of_contexts(sample(rng, other, totals), rows, scores)
        sums = replace(sums, tables=None) if streamed else sums
        assert score_test(sums, alpha=1e-4).rejected
        inside = score_test(sums, alpha=1e-4, ball=radius)
        assert inside.pvalue > 0.5
        assert f"within TV {radius:g}" in inside.method
        assert score_test(sums, alpha=1e-4, ball=radius / 100).rejected


def test_far_tails_are_finite_and_right():
    rows, scores = np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])
    for n in (10**4, 10**6):
        result = score_test(score_sums_of_contexts(np.array([[0, n]]), rows, scores), alpha=1e-6)
        # All n at the maximum; half a step nearer the mean costs log of a few n.
        assert result.log_pvalue == pytest.approx(-n * math.log(2), rel=1e-2)
        assert result.pvalue == 0.0
    streamed = replace(score_sums_of_contexts(np.array([[0, 10**6]]), rows, scores), tables=None)
    assert -(10**6) < score_test(streamed, alpha=1e-6).log_pvalue < -1e4


def test_a_score_that_cannot_vary():
    rows = np.array([[1.0, 0.0]])
    sums = score_sums_of_contexts(np.array([[5, 0]]), rows, np.array([[0.3, 0.9]]))
    assert score_test(sums, alpha=0.01).pvalue == 1.0
    assert score_min_detectable(sums, alpha=0.01) == math.inf
    outside = score_sums_of_contexts(np.array([[5, 1]]), rows, np.array([[0.3, 0.9]]))
    assert score_test(outside, alpha=0.01).log_pvalue == -math.inf


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("case", CASES)
def test_a_critical_sum_has_the_tail_asked_for(case, sign):
    rows, scores, totals = (np.array(part) for part in CASES[case])
    counts = np.zeros(rows.shape, dtype=int)
    counts[:, 0] = totals
    law = ScoreSumLaw.of(score_sums_of_contexts(counts, rows, scores).tables, sign)
    found = {log_tail: law.critical(log_tail) for log_tail in (-2.0, -7.0, -20.0, -35.0)}
    for log_tail, x in found.items():
        if x == math.inf:
            assert law.log_sf(law.reach) > log_tail
        else:
            assert law.log_sf(0.999 * x) > log_tail > law.log_sf(1.001 * x)
    assert found[-2.0] < math.inf


@pytest.mark.parametrize("scores", [[[1.0, 0.0]], [[0.0, 1.0]]])
def test_a_sum_that_cannot_rise_has_no_critical_point_there(scores):
    """Only the first token ever comes, but for a float's worth of the other."""
    counts, rows = np.array([[100_000, 0]]), np.array([[1.0, 1e-20]])
    sums = score_sums_of_contexts(counts, rows, np.array(scores))
    assert score_test(sums, alpha=1e-6).pvalue > 0.1
    reach = [ScoreSumLaw.of(sums.tables, sign) for sign in (1.0, -1.0)]
    assert sorted(law.critical(-15.0) < math.inf for law in reach) == [False, True]


def test_equal_scores_whose_variance_is_rounding():
    counts, rows = np.array([[50, 50]]), np.array([[0.5, 0.5]])
    sums = score_sums_of_contexts(counts, rows, np.array([[0.1, 0.1]]))
    assert score_min_detectable(replace(sums, variance=1e-30), alpha=1e-6) == math.inf


@pytest.mark.parametrize("p", [1e-12, 1e-8, 1e-5])
def test_a_critical_number_of_rare_events(p):
    rows, scores, n = np.array([[1.0 - p, p]]), np.array([[0.0, 1.0]]), 1000
    law = ScoreSumLaw.of(score_sums_of_contexts(np.array([[n, 0]]), rows, scores).tables, 1.0)
    for log_tail in (-2.0, -7.0, -15.0, -35.0):
        due = next(k for k in range(n) if stats.binom.logsf(k - 1, n, p) < log_tail)
        # The law is read half an event nearer the mean.
        assert due - 1 < law.critical(log_tail) < due + 0.6
