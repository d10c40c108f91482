"""Certificates hold as often as they say, and fail where their assumption does."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import (
    Certificate,
    best_certificate,
    monotone_certificate,
    plug_in_certificate,
)

DELTA = 0.1


def two_level_histogram(rng, n, tv, bins=64):
    """PITs of density 1 + 2 tv below 1/2 and 1 - 2 tv above: monotone P'/P of that TV."""
    density = np.where(np.arange(bins) < bins // 2, 1 + 2 * tv, 1 - 2 * tv)
    return rng.multinomial(n, density / bins)


@pytest.mark.distribution
def test_plug_in_covers_with_adaptive_contexts():
    """A walk by wrong rows: where it goes depends on what it emitted."""
    rng = np.random.default_rng(51)
    target = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    emitted = np.array([[0.4, 0.3, 0.3], [0.3, 0.5, 0.2], [0.3, 0.1, 0.6]])
    cdf, steps = np.cumsum(emitted, axis=1)[:, :2], 1000
    walkers = 600
    counts = np.zeros((walkers, 3, 3), dtype=int)
    state = np.zeros(walkers, dtype=int)
    for _ in range(steps):
        token = (rng.random(walkers)[:, None] >= cdf[state]).sum(axis=1)
        np.add.at(counts, (np.arange(walkers), state, token), 1)
        state = token
    tv = np.abs(emitted - target).sum(axis=1) / 2
    bounds = [plug_in_certificate(table, target, delta=DELTA).bound for table in counts]
    truth = (counts.sum(axis=2) @ tv) / steps
    misses = int((np.array(bounds) < truth).sum())
    assert misses <= stats.binom.isf(ALPHA, walkers, DELTA)
    # Negative control: half the bound is no bound.
    assert (np.array(bounds) / 2 < truth).all()


def test_plug_in_value():
    certificate = plug_in_certificate(np.array([[30, 70], [40, 60]]), [[0.5, 0.5], [0.4, 0.6]])
    assert certificate.bound == pytest.approx(0.1 + math.sqrt(math.log(1000) / 400))
    assert certificate.delta == 1e-3
    assert "context" in certificate.assumption


@pytest.mark.distribution
def test_plug_in_under_the_null_at_size():
    """docs/explanation/statistics.md: TV(phat, p) is .009 at V = 64, N = 1e5."""
    row = np.full((1, 64), 1 / 64)
    counts = np.random.default_rng(52).multinomial(10**5, row[0])[None, :]
    bound = plug_in_certificate(counts, row).bound
    assert bound - math.sqrt(math.log(1000) / 2e5) == pytest.approx(0.010, abs=0.002)


def test_bounds_are_at_most_one():
    assert plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.5]]).bound == 1.0
    assert monotone_certificate(np.array([3, 0])).bound == 1.0


@pytest.mark.distribution
@pytest.mark.parametrize("tv", [0.0, 0.05, 0.3])
def test_monotone_covers(tv):
    rng = np.random.default_rng(53)
    bounds = [
        monotone_certificate(two_level_histogram(rng, 2000, tv), delta=DELTA).bound
        for _ in range(300)
    ]
    assert sum(b < tv for b in bounds) <= stats.binom.isf(ALPHA, 300, DELTA)
    assert np.mean(bounds) < 2 * tv + 0.17


@pytest.mark.distribution
def test_monotone_needs_its_assumption():
    """Two contexts that deviate in opposite directions cancel: the bound is false."""
    rng = np.random.default_rng(54)
    mixed = two_level_histogram(rng, 10**5, 0.3) + two_level_histogram(rng, 10**5, -0.3)
    certificate = monotone_certificate(mixed)
    assert certificate.bound < 0.3
    assert "same direction" in certificate.assumption


def test_monotone_value_counts_the_bin():
    certificate = monotone_certificate(np.array([30, 20, 25, 25]), delta=0.01)
    assert certificate.bound == pytest.approx(2 * (0.05 + 0.25 + math.sqrt(math.log(200) / 200)))


def test_the_best_bound_pays_for_all():
    first = Certificate(0.2, 0.004, "a", "none")
    second = Certificate(0.1, 0.006, "b", "monotone")
    best = best_certificate(first, second)
    assert (best.bound, best.method, best.assumption) == (0.1, "b", "monotone")
    assert best.delta == pytest.approx(0.01)
    assert best_certificate(first) == first


@pytest.mark.distribution
def test_choosing_the_best_needs_the_split():
    """Many bounds that each fail at their delta: the smallest fails at the sum."""
    rng, repeats, count, truth = np.random.default_rng(56), 2000, 5, 0.5
    # Bounds that fall below the truth with probability delta each, independently.
    fails = {
        delta: sum(
            best_certificate(
                *(Certificate(b, delta, "x", "none") for b in truth + rng.random(count) - delta)
            ).bound
            < truth
            for _ in range(repeats)
        )
        for delta in (DELTA / count, DELTA)
    }
    allowed = stats.binom.isf(ALPHA, repeats, DELTA)
    assert fails[DELTA / count] <= allowed < fails[DELTA]


def test_errors_of_the_best():
    with pytest.raises(ValueError, match="expected one quantity"):
        best_certificate()
    with pytest.raises(ValueError, match="sum of deltas is 1"):
        best_certificate(Certificate(0.1, 0.5, "a", ""), Certificate(0.1, 0.5, "a", ""))


def test_errors():
    with pytest.raises(ValueError, match="all 0"):
        plug_in_certificate(np.array([[0, 0]]), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="row 0 sums to"):
        plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.4]])
    with pytest.raises(ValueError, match="delta is 0"):
        plug_in_certificate(np.array([[1, 0]]), [[0.5, 0.5]], delta=0.0)
    with pytest.raises(ValueError, match="empty"):
        monotone_certificate(np.array([0, 0]))
    with pytest.raises(ValueError, match="delta is 2"):
        monotone_certificate(np.array([1, 2]), delta=2.0)
