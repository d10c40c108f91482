"""Large alphabets: the statistic's exact law, its moments, its power, what takes its place."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from support.exact_collisions import upper_tail
from support.false_alarms import ALPHA

from simverify.stats import (
    g2_test,
    large_alphabet_min_detectable,
    large_alphabet_samples,
    large_alphabet_test,
    transition_g2,
)
from simverify.stats.counts.collisions import (
    PAIR_SHARE,
    CollisionLaw,
    least_floor,
    moments,
    statistic,
    weights,
)
from simverify.stats.counts.large_alphabet import MAX_SKEWNESS


def zipf(vocab, power, levels):
    """A row that falls like a power of the rank, in few distinct values."""
    row = 1.0 / np.arange(1, vocab + 1.0) ** power
    edges = np.unique(np.round(np.geomspace(1, vocab + 1, levels)).astype(int))
    times = np.diff(edges)
    values = np.array([row[a - 1 : b - 1].mean() for a, b in itertools.pairwise(edges)])
    values /= values @ times
    return np.repeat(values, times), values, times


def law_of(row, n):
    totals = np.array([float(n)])
    floor = least_floor(totals, row[None])
    return CollisionLaw.of(totals, row[None], floor)


@pytest.mark.parametrize(
    ("vocab", "n", "power", "levels"),
    [
        (5000, 3000, 0.0, 2),
        (151_936, 10**6, 1.0, 40),
        (151_936, 10**6, 1.5, 40),
        (151_936, 10**5, 1.1, 40),
        (20_000, 2000, 0.3, 30),
    ],
)
def test_true_size_from_the_exact_law(vocab, n, power, levels):
    """The promised critical values, against the law of the statistic itself, given N."""
    row, values, times = zipf(vocab, power, levels)
    null = law_of(row, n)
    assert null.skewness <= MAX_SKEWNESS
    square = float((weights(row, null.floor) * row * row).sum())

    def cell(x, p):
        off = x - n * p
        return max(p, null.floor) ** (-2 / 3) * (off**2 - x + 2 * p * off) + n * square / vocab

    alphas = np.array([1e-2, 1e-3, 1e-6, 1e-8, 1e-9])
    # What the test asks of its p-value at level alpha, a tenth being the floor's.
    critical = np.array([null.critical(math.log(0.9 * a)) for a in alphas])
    deviation = math.sqrt(null.variance)
    sizes = upper_tail(values, times, n, cell, deviation, critical)
    assert (sizes <= 1.0 * alphas).all()
    assert (sizes >= 0.85 * alphas).all()
    # A normal law, the wrong one here, is seen to be wrong.
    normal = upper_tail(values, times, n, cell, deviation, deviation * stats.norm.isf(alphas))
    assert normal[-1] > 1.5 * alphas[-1]


@pytest.mark.distribution
def test_moments_are_those_of_simulated_counts():
    rng = np.random.default_rng(101)
    rows = np.array([zipf(40, 0.8, 40)[0], zipf(40, 0.2, 40)[0]])
    totals = np.array([60.0, 90.0])
    floor, runs = 0.02, 20_000
    values = np.array(
        [
            statistic(
                np.array([rng.multinomial(int(n), p) for n, p in zip(totals, rows, strict=True)]),
                totals, rows, floor,
            )
            for _ in range(runs)
        ]
    )  # fmt: skip
    variance, third = moments(totals, rows, floor)
    z = stats.norm.isf(ALPHA / 6)
    for power, expected in ((1, 0.0), (2, variance), (3, third)):
        sample = values**power
        assert abs(sample.mean() - expected) < z * sample.std() / math.sqrt(runs)
    # Negative control: the moments of one token more in each context.
    other = moments(totals + 3, rows, floor)[0]
    assert abs((values**2).mean() - other) > z * (values**2).std() / math.sqrt(runs)


def test_log_tail_and_critical_value_are_inverse_and_reach_far():
    null = law_of(zipf(5000, 0.5, 30)[0], 4000)
    for log_tail in (math.log(1e-3), -50.0, -700.0, -7000.0):
        assert null.log_sf(null.critical(log_tail)) == pytest.approx(log_tail, rel=1e-6)
    assert null.log_sf(-1.0) == 0.0


def test_floor_bounds_what_a_pair_moves():
    row = zipf(20_000, 1.2, 40)[0]
    for n in (3000, 10**5):
        null = law_of(row, n)
        pair = 2 * null.floor ** (-2 / 3) / math.sqrt(null.variance)
        assert 0.98 * PAIR_SHARE <= pair <= PAIR_SHARE


def worst_deviation(row, floor, tv):
    """D in proportion to 1 / w, with signs that cancel in neighbours."""
    shape = np.maximum(row, floor) ** (2 / 3) * np.where(np.arange(row.size) % 2, 1.0, -1.0)
    other = row + 2 * tv * shape / np.abs(shape).sum()
    other -= other.sum() / other.size - 1 / other.size
    assert other.min() > 0
    return other


@pytest.mark.distribution
def test_power_at_the_planned_deviation_where_g2_sees_nothing():
    rng = np.random.default_rng(102)
    n, alpha = 4000, 1e-6
    row = zipf(5000, 0.4, 5000)[0]
    tv = large_alphabet_min_detectable(n, row, alpha=alpha)
    other = worst_deviation(row, law_of(row, n).floor, tv)
    found = by_g2 = 0
    for _ in range(100):
        counts = rng.multinomial(n, other)[None]
        found += large_alphabet_test(counts, row[None], alpha=alpha).rejected
        by_g2 += g2_test(transition_g2(counts, row[None]), alpha=alpha).rejected
    assert stats.binom.cdf(found, 100, 0.9) > ALPHA
    assert by_g2 == 0


def test_planning():
    row = zipf(5000, 0.4, 5000)[0]
    n = large_alphabet_samples(0.15, row, alpha=1e-6)
    assert large_alphabet_min_detectable(n, row, alpha=1e-6) <= 0.15
    assert large_alphabet_min_detectable(int(0.98 * n), row, alpha=1e-6) > 0.15
    assert large_alphabet_min_detectable(50, row, alpha=1e-6) == math.inf


def test_few_tokens_of_a_small_alphabet_go_to_g2():
    counts, rows = np.array([[20, 30, 50]]), np.array([[0.2, 0.3, 0.5]])
    result = large_alphabet_test(counts, rows, alpha=0.01)
    assert result.method.startswith("G2")
    assert result.log_pvalue == g2_test(transition_g2(counts, rows), alpha=0.01).log_pvalue


@pytest.mark.distribution
def test_mass_moved_below_the_floor_is_found_by_its_count():
    """Half of the tokens are below p0, spread so thin that none is ever seen twice."""
    rng = np.random.default_rng(103)
    row = np.concatenate([np.full(2000, 0.99 / 2000), np.full(10**5, 0.01 / 10**5)])
    n = 20_000
    null = law_of(row, n)
    assert row[-1] < null.floor
    shifted = np.concatenate([row[:2000] * (0.98 / 0.99), row[2000:] * 2])
    counts = rng.multinomial(n, shifted)[None]
    assert large_alphabet_test(counts, row[None], alpha=ALPHA).rejected
    below = null.log_sf(statistic(counts, np.array([float(n)]), row[None], null.floor))
    assert below > math.log(1e-6)
    healthy = rng.multinomial(n, row)[None]
    assert not large_alphabet_test(healthy, row[None], alpha=ALPHA).rejected


def test_contexts_add_up():
    """Ten contexts of one row are weaker than one of ten times the tokens: pairs within each."""
    row = zipf(3000, 0.3, 3000)[0]
    rng = np.random.default_rng(104)
    split = rng.multinomial(1500, row, size=10)
    apart = large_alphabet_test(split, np.tile(row, (10, 1)), alpha=1e-6)
    joint = large_alphabet_test(split.sum(axis=0)[None], row[None], alpha=1e-6)
    assert (apart.n, joint.n) == (15_000, 15_000)
    assert apart.min_detectable > joint.min_detectable
    # Contexts without a token change nothing.
    padded = np.vstack([split, np.zeros((1, 3000), dtype=int)])
    again = large_alphabet_test(padded, np.tile(row, (11, 1)), alpha=1e-6)
    assert again.log_pvalue == pytest.approx(apart.log_pvalue)
