"""Tests of pairs: their size under independence, their power against what pairs share."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import g2_test
from simverify.stats.counts.independence import disjoint_pairs, duplicates_test, pair_g2
from simverify.stats.pits.correlation import MIN_PAIRS, pair_sums
from simverify.stats.pits.correlation import pit_correlation as correlation_test

ROW = np.array([0.5, 0.3, 0.2])
RUNS, LEVEL = 1000, 0.01


def pit_correlation(first, second, **options):
    return correlation_test(pair_sums(first, second), **options)


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_disjoint_pairs_share_no_member_and_meet_all_neighbours(lag):
    n = 37
    met = set()
    for phase in range(2):
        first = disjoint_pairs(n, lag, phase)
        members = np.concatenate([first, first + lag])
        assert len(set(members)) == len(members)
        assert members.max() < n
        met |= set(first.tolist())
    assert met == set(range(n - lag))


def test_fewer_members_than_the_lag_make_no_pairs():
    assert len(disjoint_pairs(3, 5, 0)) == 0


def uniforms(runs, n, shared=0.0):
    """PITs in a row; each is its predecessor's with probability ``shared``."""
    rng = np.random.default_rng(61)
    u = rng.random((runs, n))
    copied = rng.random((runs, n)) < shared
    for i in range(1, n):
        u[:, i] = np.where(copied[:, i], u[:, i - 1], u[:, i])
    return u


def rejected(pvalues):
    return int((np.array(pvalues) < LEVEL).sum())


@pytest.mark.distribution
def test_correlation_has_its_size_on_overlapping_pairs():
    pvalues = [pit_correlation(u[:-1], u[1:], alpha=LEVEL).pvalue for u in uniforms(RUNS, 4001)]
    low, high = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], RUNS, LEVEL)
    assert low <= rejected(pvalues) <= high
    # Negative control: a tenth of the stream repeated.
    control = uniforms(20, 4001, shared=0.1)
    assert rejected([pit_correlation(u[:-1], u[1:], alpha=LEVEL).pvalue for u in control]) == 20


@pytest.mark.distribution
def test_correlation_finds_what_it_promises():
    """Mixtures of equal and independent PITs have the correlation of the mixing weight."""
    n = 5000
    shift = pit_correlation(np.zeros(n), np.ones(n), alpha=LEVEL).min_detectable
    rng = np.random.default_rng(62)
    found = 0
    for _ in range(400):
        u, v = rng.random((2, n))
        v = np.where(rng.random(n) < shift, u, v)
        found += pit_correlation(u, v, alpha=LEVEL).rejected
    assert found >= stats.binom.ppf(ALPHA, 400, 0.88)
    assert found < 400


@pytest.mark.distribution
def test_pairs_and_duplicates_have_their_size_and_see_a_shared_draw():
    rng = np.random.default_rng(63)
    n, chance = 600, float((ROW**2).sum())

    def pvalues(shared):
        a, b = (rng.choice(3, p=ROW, size=n) for _ in range(2))
        b = np.where(rng.random(n) < shared, a, b)
        table = g2_test(pair_g2(a, b, ROW), alpha=LEVEL).pvalue
        return table, duplicates_test(int((a == b).sum()), n, chance, alpha=LEVEL).pvalue

    healthy = np.array([pvalues(0.0) for _ in range(RUNS)]).T
    # The table's law is the three-moment gamma, the duplicates' is exact and doubled.
    low, high = stats.binom.ppf([ALPHA / 3, 1 - ALPHA / 3], RUNS, [0.8 * LEVEL, 1.25 * LEVEL])
    assert low <= rejected(healthy[0]) <= high
    assert rejected(healthy[1]) <= stats.binom.ppf(1 - ALPHA / 3, RUNS, LEVEL / 2)
    faulty = np.array([pvalues(0.3) for _ in range(20)]).T
    assert rejected(faulty[0]) == rejected(faulty[1]) == 20


def test_values_by_hand():
    u = np.tile([0.0, 1.0], MIN_PAIRS // 2)
    assert pit_correlation(u, u, alpha=0.01).statistic == pytest.approx(3.0)
    assert pit_correlation(u, 1 - u, alpha=0.01).statistic == pytest.approx(-3.0)
    g2 = pair_g2(np.repeat([0, 1], 50), np.tile([0, 1], 50), np.array([0.5, 0.5]))
    assert g2.statistic == pytest.approx(0.0)
    assert (g2.df, g2.n) == (3, 100)
    both = 2 * stats.binom.sf(29, 50, 0.38)
    assert duplicates_test(30, 50, 0.38, alpha=0.01).pvalue == pytest.approx(both)
    assert duplicates_test(0, 50, 0.38, alpha=0.01).pvalue == 1.0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="10 pairs"):
        pit_correlation(np.zeros(10), np.zeros(10), alpha=0.01)
    wrong = np.full(MIN_PAIRS, math.nan)
    with pytest.raises(ValueError, match="NaN or outside"):
        pit_correlation(wrong, wrong, alpha=0.01)
    with pytest.raises(ValueError, match=r"span 0\.\.3"):
        pair_g2([0, 3], [1, 1], ROW)
    with pytest.raises(ValueError, match="shapes"):
        pair_g2([0, 1], [1], ROW)
    with pytest.raises(ValueError, match="phase is 2"):
        disjoint_pairs(5, 1, 2)
