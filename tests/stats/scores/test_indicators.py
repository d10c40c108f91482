"""Bits with known probabilities: exact tails, power, what is excluded, balls."""

import math

import numpy as np
import pytest
from scipy import stats
from support.coin_tails import log_poisson_binomial_cdf, log_poisson_binomial_sf
from support.false_alarms import ALPHA

from simverify.stats import (
    INDICATOR_BINS,
    IndicatorSums,
    indicator_bin,
    indicator_min_detectable,
    indicator_sums,
    indicator_sums_of_contexts,
    indicator_test,
)
from simverify.stats.scores import indicator_bank


def with_hits(probabilities, hits):
    """Sums of bits with these probabilities of which ``hits`` are 1."""
    bits = np.zeros(len(probabilities), dtype=int)
    bits[:hits] = 1
    return indicator_sums(bits, probabilities)


def exact_log_pvalue(probabilities, hits):
    ones = np.ones(len(probabilities))
    upper = log_poisson_binomial_sf(hits - 1, probabilities, ones)
    lower = log_poisson_binomial_cdf(hits, probabilities, ones)
    return min(0.0, math.log(2) + min(upper, lower))


@pytest.mark.parametrize("shape", [(0.5, 0.5), (1, 200), (200, 1), (0.02, 0.02), (30, 30)])
def test_the_histogram_never_lowers_the_pvalue_and_barely_raises_it(shape):
    p = np.clip(np.random.default_rng(72).beta(*shape, size=3000), 1e-9, 1 - 1e-9)
    deviation = math.sqrt((p * (1 - p)).sum())
    for z in (-30, -6, -3, -1, 1, 3, 6, 30):
        hits = min(max(round(p.sum() + z * deviation), 0), 3000)
        exact = exact_log_pvalue(p, hits)
        got = indicator_test(with_hits(p, hits), alpha=0.01).log_pvalue
        assert exact - 1e-9 <= got
        if abs(hits - p.sum()) > 2:
            assert got <= exact * (1 - 2e-3) + 1e-3


def test_rare_bits_close_to_their_mean_are_rounded_upwards():
    p = np.random.default_rng(73).random(200) * 2e-4
    for hits in (1, 2):
        exact = exact_log_pvalue(p, hits)
        got = indicator_test(with_hits(p, hits), alpha=0.01).log_pvalue
        assert exact - 1e-12 <= got <= exact + 0.1


def test_equal_probabilities_are_binomial():
    n, p = 1000, 0.3
    for hits in (200, 290, 340, 400):
        b = stats.binom
        expected = min(1.0, 2 * min(b.sf(hits - 1, n, p), b.cdf(hits, n, p)))
        assert indicator_test(with_hits(np.full(n, p), hits), alpha=0.01).pvalue == pytest.approx(
            expected, rel=0.05
        )


def test_what_is_excluded_fails_at_once():
    """White box: a = 1 yet rejected, or a = 0 yet accepted."""
    chance = np.array([1.0, 1.0, 0.5, 0.0])
    healthy = indicator_sums([1, 1, 0, 0], chance)
    assert healthy.impossible == 0
    assert indicator_test(healthy, alpha=0.01).pvalue == 1.0
    for bits in ([1, 0, 0, 0], [1, 1, 1, 1]):
        sums = indicator_sums(bits, chance)
        assert sums.impossible == 1
        assert indicator_test(sums, alpha=1e-300).log_pvalue == -math.inf
        # Within a ball such a bit is only rare.
        assert indicator_test(sums, alpha=0.01, ball=0.1).log_pvalue > -5
    assert (healthy + sums).impossible == 1


def test_sums_add_and_bins_keep_the_mean():
    rng = np.random.default_rng(74)
    p = np.concatenate([rng.beta(0.3, 0.3, 500), [0.0, 1.0, 0.5, 1e-300, 1 - 1e-16]])
    bits = (rng.random(505) < p).astype(int)
    whole = indicator_sums(bits, p)
    parts = indicator_sums(bits[:200], p[:200]) + indicator_sums(bits[200:], p[200:])
    assert (parts.n, parts.hits) == (whole.n, whole.hits)
    np.testing.assert_array_equal(parts.bits, whole.bits)
    assert whole.mean == pytest.approx(p.sum(), rel=1e-12)
    assert parts.mean == pytest.approx(whole.mean, rel=1e-12)
    assert whole.variance == pytest.approx((p * (1 - p)).sum(), rel=1e-3)
    side, index = indicator_bin([0.0, 1.0, 0.5, 0.25, 0.75, 1e-300])
    assert side.tolist() == [0, 1, 0, 0, 1, 0]
    assert index.tolist() == [INDICATOR_BINS, INDICATOR_BINS, 0, 16, 16, INDICATOR_BINS - 1]


def test_contexts_are_streamed_bits():
    rng = np.random.default_rng(75)
    rows = rng.dirichlet(np.ones(6), 4)
    members = rng.random((4, 6)) < 0.5
    members[3] = True
    counts = rng.integers(0, 9, (4, 6))
    got = indicator_sums_of_contexts(counts, rows, members)
    chance = np.where(members.all(axis=1), 1.0, (rows * members).sum(axis=1))
    context, token = np.repeat(np.indices((4, 6)).reshape(2, -1), counts.ravel(), axis=1)
    streamed = indicator_sums(members[context, token].astype(int), chance[context])
    assert (got.n, got.hits, got.impossible) == (streamed.n, streamed.hits, 0)
    np.testing.assert_array_equal(got.bits, streamed.bits)
    np.testing.assert_allclose(got.rare, streamed.rare)


@pytest.mark.distribution
@pytest.mark.parametrize("sign", [1, -1])
def test_power_at_the_planned_shift(sign):
    rng = np.random.default_rng(76)
    p = rng.beta(2, 3, 5000)
    alpha = 1e-6
    shift = indicator_min_detectable(with_hits(p, 0), alpha=alpha)
    other = np.clip(p + sign * shift, 0, 1)
    other += (p.mean() + sign * shift - other.mean()) * (other > 0) * (other < 1)
    found = sum(
        indicator_test(
            indicator_sums((rng.random(5000) < other).astype(int), p), alpha=alpha
        ).rejected
        for _ in range(200)
    )
    assert stats.binom.cdf(found, 200, 0.9) > ALPHA / 2
    assert found < 200


def test_planning():
    sums = with_hits(np.random.default_rng(77).beta(2, 2, 20_000), 0)
    for ball in (0.0, 0.005):
        z = stats.norm.isf(5e-7) + stats.norm.isf(0.1)
        expected = z * np.sqrt(sums.variance) / sums.n
        found = indicator_min_detectable(sums, alpha=1e-6, ball=ball)
        assert found - ball == pytest.approx(expected, rel=0.025)
    # No shift of a bit that is always 0 is possible but upwards.
    assert indicator_min_detectable(with_hits(np.full(5, 0.5), 0), alpha=1e-6) == math.inf


def test_a_ball_swallows_its_own_shift():
    n = 100_000
    p, off = np.full(n, 0.3), np.full(n, 0.31)
    drawn = indicator_sums((np.random.default_rng(78).random(n) < off).astype(int), p)
    assert indicator_test(drawn, alpha=1e-6).rejected
    inside = indicator_test(drawn, alpha=1e-6, ball=0.01)
    assert inside.log_pvalue > -5
    assert "within TV 0.01" in inside.method
    assert indicator_test(drawn, alpha=1e-6, ball=0.001).rejected
    assert inside.min_detectable == pytest.approx(
        0.01 + indicator_test(drawn, alpha=1e-6).min_detectable, rel=0.02
    )


def test_far_tail():
    result = indicator_test(with_hits(np.full(10_000, 0.5), 0), alpha=1e-6)
    assert result.log_pvalue == pytest.approx(-9999 * math.log(2), rel=1e-9)
    assert isinstance(with_hits([0.5], 0), IndicatorSums)


@pytest.mark.parametrize("radius", [0.0, 0.01])
@pytest.mark.parametrize("shape", [(0.5, 0.5), (1, 200), (200, 1), (30, 30)])
def test_a_critical_number_is_the_fewest_hits_that_are_too_many(shape, radius):
    p = np.random.default_rng(75).beta(*shape, size=400)
    sums = indicator_sums(np.zeros(400, dtype=int), p)
    for log_tail in (-1.0, -10.0, -300.0):
        found = indicator_bank._critical(
            sums.mean, sums.bits, sums.rare, log_tail, radius, likely=sums.mean, steep=0.3
        )
        tail = [
            indicator_bank._log_at_least(hits, sums.bits, sums.rare, radius)
            for hits in range(math.floor(sums.mean) + 1, 401)
        ]
        due = next((k for k, log_p in enumerate(tail) if log_p < log_tail), len(tail))
        assert found == math.floor(sums.mean) + 1 + due
