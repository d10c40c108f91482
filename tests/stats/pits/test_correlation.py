"""Correlation and tables of pairs of PITs: far tails, plans, balls."""

import math

import numpy as np
import pytest
from scipy import special, stats
from support.false_alarms import ALPHA

from simverify.stats import (
    PairSums,
    correlation_min_detectable,
    correlation_samples,
    duplicates_min_detectable,
    duplicates_test,
    g2_test,
    pair_sums,
    pit_correlation,
    pit_table,
    pit_table_g2,
)
from simverify.stats._search import smallest_n
from simverify.stats.pits.correlation import MIN_PAIRS


def characteristic_of_product(waves):
    """E exp(i w a b) for a, b uniform on [-1, 1] is Si(w) / w."""
    return special.sici(waves)[0] / waves


def test_far_tail_of_disjoint_pairs_from_the_exact_law():
    """The normal tail is within a tenth of the exact one at MIN_PAIRS, down to 1e-9."""
    n = MIN_PAIRS
    deviation = math.sqrt(n)
    span = 60 * deviation
    harmonics = np.arange(1, 200)
    waves = 2 * math.pi / span * harmonics
    # 12 (u - 1/2)(v - 1/2) = 3 a b for a, b uniform on [-1, 1].
    law = np.exp(n * np.log(characteristic_of_product(3.0 * waves)))
    for z in (2.0, 4.75, 5.5, 6.0):
        ends = np.exp(-1j * waves * z * deviation), np.exp(-1j * waves * (z * deviation + span / 2))
        tail = 0.5 + ((ends[0] - ends[1]) / (1j * math.pi * harmonics) * law).real.sum()
        assert stats.norm.sf(z) == pytest.approx(tail, rel=0.02)
    # A heavier law, that of equal pairs, would not pass.
    assert stats.norm.sf(6.0 / 1.1) > 1.1 * tail


def test_sums_add_and_the_statistic_is_the_correlation():
    u, v = np.random.default_rng(121).random((2, 6000))
    whole = pair_sums(u, v)
    parts = pair_sums(u[:100], v[:100]) + pair_sums(u[100:], v[100:])
    assert parts.n == whole.n
    assert parts.products == pytest.approx(whole.products)
    assert parts.spreads == pytest.approx(whole.spreads)
    expected = np.corrcoef(u, v)[0, 1]
    assert pit_correlation(whole, alpha=0.01).statistic == pytest.approx(expected, abs=2e-3)


def test_a_ball_swallows_what_it_may_hold():
    """The worst law in a ball moves mass from v = 0 to 1, or back, by the sign of u - 1/2."""
    rng = np.random.default_rng(122)
    u, v = rng.random((2, 200_000))
    moved = rng.random(v.size) < 0.02
    v = np.where(moved, np.where(u > 0.5, 1 - v / 50, v / 50), v)
    sums = pair_sums(u, v)
    assert pit_correlation(sums, alpha=1e-6).rejected
    assert pit_correlation(sums, alpha=1e-6, ball=0.02).log_pvalue > -3
    assert pit_correlation(sums, alpha=1e-6, ball=0.002).rejected


def test_correlation_plans():
    for ball in (0.0, 0.01):
        n = correlation_samples(0.1, alpha=1e-6, ball=ball)
        assert correlation_min_detectable(n, alpha=1e-6, ball=ball) <= 0.1
        if n > MIN_PAIRS:
            assert correlation_min_detectable(n - 1, alpha=1e-6, ball=ball) > 0.1
    z = stats.norm.isf(5e-7 / 1.1) + stats.norm.isf(0.1)
    assert correlation_samples(0.01, alpha=1e-6) == pytest.approx((z / 0.01) ** 2, rel=1e-3)
    assert correlation_samples(0.9, alpha=0.01) == MIN_PAIRS


def test_table_of_pits():
    cells = (np.arange(8) + 0.5) / 8
    table = pit_table(np.repeat(cells, 8), np.tile(cells, 8))
    np.testing.assert_array_equal(table, np.ones((8, 8)))
    assert pit_table([1.0, 0.0], [0.0, 0.126])[[7, 0], [0, 1]].tolist() == [1, 1]
    g2 = pit_table_g2(20 * table)
    assert (g2.df, g2.n, g2.unresolved) == (63, 1280, 0.0)
    assert g2.statistic == pytest.approx(0.0)
    # Equal PITs one time in five: no correlation of cells is needed to see it.
    shared = 16 * table + 32 * np.eye(8, dtype=int)
    assert g2_test(pit_table_g2(shared), alpha=1e-6).rejected
    with pytest.raises(ValueError, match="640 or more"):
        pit_table_g2(9 * table)
    with pytest.raises(ValueError, match="shape"):
        pit_table_g2(table[:4])


def test_duplicates_plans_and_balls():
    chance = 0.34

    def pairs(ball):
        def enough(n):
            return duplicates_min_detectable(n, chance, alpha=1e-6, ball=ball) <= 0.05

        return smallest_n(enough, "excess 0.05")

    n = pairs(ball=0.0)
    assert duplicates_min_detectable(int(0.97 * n), chance, alpha=1e-6) > 0.05
    assert pairs(ball=0.01) > 2 * n
    count = int(n * (chance + 0.06))
    assert duplicates_test(count, n, chance, alpha=1e-6).rejected
    assert not duplicates_test(count, n, chance, alpha=1e-6, ball=0.03).rejected


def lag_tail(z, *, runs, steps, seed):
    """P(S > z sqrt(steps)) and its standard error, S = sum of 12 (u - 1/2)(v - 1/2) at lag 1.

    Importance sampling: each PIT is drawn tilted by exp(theta 12 (u - 1/2)(v - 1/2)), u the
    one before; the weight undoes it.
    """
    rng = np.random.default_rng(seed)
    theta = z / math.sqrt(steps)
    u = rng.random(runs) - 0.5
    total, log_mass = np.zeros(runs), np.zeros(runs)
    for _ in range(steps):
        rate = 12.0 * theta * u
        rate = np.where(np.abs(rate) < 1e-9, 1e-9, rate)
        span = np.sinh(rate / 2.0)
        v = np.log(np.exp(-rate / 2.0) + 2.0 * rng.random(runs) * span) / rate
        total += 12.0 * u * v
        log_mass += np.log(span / (rate / 2.0))
        u = v
    weight = np.where(total > z * math.sqrt(steps), np.exp(log_mass - theta * total), 0.0)
    return weight.mean(), weight.std() / math.sqrt(runs)


@pytest.mark.distribution
@pytest.mark.parametrize("z", [2.5, 4.9, 6.0])
def test_far_tail_of_a_lag_by_importance_sampling(z):
    """Overlapping pairs: never above the test's tail at MIN_PAIRS, and close, down to 1e-9."""
    tail, error = lag_tail(z, runs=6000, steps=MIN_PAIRS, seed=123)
    margin = stats.norm.isf(ALPHA / 2) * error
    at_z = PairSums(n=MIN_PAIRS, products=z * math.sqrt(MIN_PAIRS) / 12, spreads=0.0)
    claimed = pit_correlation(at_z, alpha=0.01).pvalue / 2
    assert tail - margin <= claimed
    # Negative controls: neither that of a law a tenth wider, nor of one a tenth narrower.
    assert claimed < stats.norm.sf(z / 1.1) - margin
    assert tail - margin > stats.norm.sf(1.1 * z)
