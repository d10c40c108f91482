"""KS on binned PITs: conservative, and able to see what it promises."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import PIT_BINS, ks_min_detectable, ks_samples, pit_ks


def histogram(values, bins=PIT_BINS):
    return np.bincount((np.asarray(values) * bins).astype(int), minlength=bins)


def randomised_pits(rng, tokens, row):
    below = np.concatenate([[0.0], np.cumsum(row)[:-1]])
    return np.minimum(below[tokens] + rng.random(tokens.size) * row[tokens], np.nextafter(1, 0))


@pytest.mark.distribution
def test_size_and_negative_control():
    """Tokens of the declared law pass at the nominal rate; those of another do not."""
    rng = np.random.default_rng(21)
    row = np.array([0.05, 0.5, 0.15, 0.3])
    rejections = [0, 0]
    for _ in range(1000):
        tokens = rng.choice(4, 300, p=row)
        result = pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=0.01)
        rejections[0] += result.rejected
        # Without randomisation the PITs of a discrete law are not uniform.
        rejections[1] += pit_ks(
            histogram(np.cumsum(row)[tokens] - 0.5 * row[tokens]), alpha=0.01
        ).rejected
    assert stats.binomtest(rejections[0], 1000, 0.01).pvalue > ALPHA
    assert rejections[1] == 1000


@pytest.mark.distribution
def test_wrong_row_is_rejected():
    rng = np.random.default_rng(22)
    row, other = np.array([0.4, 0.6]), np.array([0.45, 0.55])
    tokens = rng.choice(2, 40_000, p=other)
    assert pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=1e-6).rejected
    assert not pit_ks(histogram(randomised_pits(rng, tokens, other)), alpha=ALPHA).rejected


@pytest.mark.distribution
@pytest.mark.parametrize("n", [400, 20_000])
def test_power_at_the_planned_deviation(n):
    """Two tokens of probability 1/2, shifted by the promised D, which is their TV."""
    rng = np.random.default_rng(23)
    alpha, row = 1e-6, np.array([0.5, 0.5])
    shift = ks_min_detectable(n, alpha=alpha)
    found = 0
    for _ in range(400):
        tokens = rng.choice(2, n, p=[0.5 + shift, 0.5 - shift])
        found += pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=alpha).rejected
    assert stats.binom.cdf(found, 400, 0.9) > ALPHA


@pytest.mark.parametrize("bins", [2, 16, PIT_BINS])
def test_binning_never_lowers_the_pvalue(bins):
    rng = np.random.default_rng(24)
    for n in (1, 5, 100, 3000):
        sample = rng.random(n) ** 1.1
        exact = stats.kstest(sample, "uniform")
        result = pit_ks(histogram(sample, bins), alpha=0.05)
        assert exact.statistic - 1 / bins <= result.statistic <= exact.statistic
        # Twice the one-sided tail is above the exact one.
        assert result.pvalue >= exact.pvalue * (1 - 1e-9)


def test_everything_in_one_bin():
    bins = np.zeros(PIT_BINS, dtype=int)
    bins[-1] = 10**6
    result = pit_ks(bins, alpha=1e-6)
    assert result.rejected
    assert result.statistic == 1 - 1 / PIT_BINS
    assert math.isfinite(result.log_pvalue)
    assert result.log_pvalue < -1e6


def test_more_tokens_than_the_exact_law_takes():
    bins = np.full(PIT_BINS, 1000)
    assert pit_ks(bins, alpha=0.5).log_pvalue == 0.0
    bins[:100] += 1000
    result = pit_ks(bins, alpha=1e-6)
    assert result.rejected
    assert "limit law" in result.method
    assert result.min_detectable == pytest.approx(3.335 / math.sqrt(result.n) + 2**-16, rel=0.01)


def test_planning():
    # docs/explanation/statistics.md: 3.33 / sqrt(N) at alpha 1e-6, 3.60 at a twentieth of it.
    for alpha, constant in ((1e-6, 3.33), (5e-8, 3.60)):
        got = ks_min_detectable(10**6, alpha=alpha, bins=2**60)
        assert got * 1000 == pytest.approx(constant, abs=0.006)
    for distance in (0.5, 0.01, 3e-4):
        n = ks_samples(distance, alpha=1e-6)
        assert ks_min_detectable(n, alpha=1e-6) <= distance
        assert ks_min_detectable(n - 1, alpha=1e-6) > distance
    assert ks_min_detectable(5, alpha=1e-6) == math.inf


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ([0, 0, 0], "empty"),
        ([5], "1 bins"),
        ([3, -1], "no negative"),
        ([0.5, math.nan], "expected integers"),
        ([[1, 2]], "expected 1 axes"),
    ],
)
def test_histogram_errors(bins, message):
    with pytest.raises(ValueError, match=message):
        pit_ks(np.array(bins), alpha=0.01)


def test_errors():
    with pytest.raises(ValueError, match="alpha is 1"):
        pit_ks(np.array([1, 2]), alpha=1)
    with pytest.raises(ValueError, match="more than one bin"):
        ks_samples(2**-16, alpha=0.01)
    with pytest.raises(ValueError, match="n is 0"):
        ks_min_detectable(0, alpha=0.01)
