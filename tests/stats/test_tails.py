"""Log tails against mpmath at 1e-300 and 1e-3000, and against scipy where that is exact."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from simverify.stats.tails import (
    KSTWO_EXACT_MAX,
    log_binom_cdf,
    log_binom_sf,
    log_gamma_sf,
    log_kstwo_sf,
    log_normal_sf,
)

FAR = [300, 3000]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def gamma_at(shape, decades):
    """A point at which mpmath puts the upper tail near 10^-decades, with its log there."""

    def log_tail(x):
        return mp.log(mp.gammainc(mp.mpf(shape), mp.mpf(x), regularized=True))

    low, high = float(shape), 20.0 * (shape + decades)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if log_tail(middle) < -decades * mp.log(10) else (middle, high)
    return low, float(log_tail(low))


@pytest.mark.parametrize("decades", [1, 30, 250, 290, *FAR])
@pytest.mark.parametrize("shape", [0.5, 1.0, 4.5, 60.0, 3000.0])
def test_gamma(shape, decades):
    x, expected = gamma_at(shape, decades)
    assert log_gamma_sf(x, shape) == pytest.approx(expected, rel=1e-11)


def test_gamma_in_its_body_and_at_its_ends():
    for shape in (0.5, 3.0, 18_000.0):
        for x in (shape * 0.5, shape, shape * 1.01):
            expected = float(mp.log(mp.gammainc(mp.mpf(shape), mp.mpf(x), regularized=True)))
            assert log_gamma_sf(x, shape) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert log_gamma_sf(0.0, 2.0) == 0.0
    assert log_gamma_sf(math.inf, 2.0) == -math.inf


def exact_binom_upper(k, n, p):
    """Log of P(X >= k) by summing exact terms until they no longer matter."""
    p = mp.mpf(p)
    term = mp.binomial(n, k) * p**k * (1 - p) ** (n - k)
    total = mp.mpf(0)
    while k <= n and term > total * mp.mpf(10) ** -40:
        total += term
        term *= mp.mpf(n - k) / (k + 1) * p / (1 - p)
        k += 1
    return float(mp.log(total))


@pytest.mark.parametrize("decades", [20, 270, 290, *FAR])
@pytest.mark.parametrize(
    ("n", "p"), [(1500, 1e-4), (5000, 0.3), (10**6, 0.5), (10**6, 1e-6), (10**9, 0.25)]
)
@pytest.mark.thorough(by_day=4)
def test_binomial(n, p, decades):
    low, high = int(n * p), n
    while high - low > 1:
        middle = (low + high) // 2
        if log_binom_sf(middle, n, p) < -decades * math.log(10):
            high = middle
        else:
            low = middle
    expected = exact_binom_upper(low + 1, n, p)
    assert expected == pytest.approx(-decades * math.log(10), rel=0.3)
    assert log_binom_sf(low, n, p) == pytest.approx(expected, rel=1e-10)
    # The lower tail of the mirrored law, whose probability is a rounded 1 - p.
    mirrored = exact_binom_upper(low + 1, n, 1 - mp.mpf(1 - p))
    assert log_binom_cdf(n - low - 1, n, 1 - p) == pytest.approx(mirrored, rel=1e-10)


def test_binomial_in_its_body_and_at_its_ends():
    for n, p in ((1, 0.4), (7, 0.01), (60, 0.9)):
        k = np.arange(-1, n + 1)
        upper = [math.exp(log_binom_sf(int(i), n, p)) for i in k]
        lower = [math.exp(log_binom_cdf(int(i), n, p)) for i in k]
        np.testing.assert_allclose(upper, stats.binom.sf(k, n, p), rtol=1e-12, atol=0)
        np.testing.assert_allclose(lower, stats.binom.cdf(k, n, p), rtol=1e-12, atol=0)
    assert log_binom_sf(4, 5, 1.0) == 0.0
    assert log_binom_sf(0, 5, 0.0) == -math.inf
    assert log_binom_cdf(5, 5, 1.0) == 0.0
    assert log_binom_cdf(4, 5, 1.0) == -math.inf


def exact_smirnov(d, n):
    """Log of P(D+ >= d) by the sum of Birnbaum and Tingey in mpmath."""
    d = mp.mpf(d)
    terms = (
        mp.binomial(n, j) * (1 - d - mp.mpf(j) / n) ** (n - j) * (d + mp.mpf(j) / n) ** (j - 1)
        for j in range(int(mp.floor(n * (1 - d))) + 1)
    )
    return mp.log(d * mp.fsum(terms))


@pytest.mark.parametrize(
    ("n", "d", "decades"),
    [(1000, 0.5726, 300), (50, 1 - 1e-6, 300), (2000, 0.975, 3000), (50, 0.7, 25)],
)
def test_kolmogorov_smirnov_far_tail(n, d, decades):
    # For d > 1/2 the two one-sided events exclude each other: twice one of them is exact.
    expected = float(mp.log(2) + exact_smirnov(d, n))
    assert expected == pytest.approx(-decades * math.log(10), rel=0.1)
    assert log_kstwo_sf(d, n) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("n", [5, 80, 1000, 20_000])
def test_kolmogorov_smirnov_against_scipy(n):
    for z in (0.4, 1.0, 1.48, 1.6, 2.7, 5.0, 15.0):
        d = z / math.sqrt(n)
        if d < 1:
            exact = stats.kstwo.logsf(d, n)
            # Twice the one-sided tail may exceed the exact one, by p^3 or so.
            assert exact - 1e-9 <= log_kstwo_sf(d, n) <= exact + 1e-4


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0, 2.99, 3.01, 27.0, 80.0])
def test_limit_law_beyond_exact_sizes_is_conservative(z):
    exact = log_kstwo_sf(z / 1000.0, KSTWO_EXACT_MAX)
    beyond = log_kstwo_sf(z / math.sqrt(KSTWO_EXACT_MAX + 1), KSTWO_EXACT_MAX + 1)
    assert math.isfinite(beyond)
    assert exact - 1e-9 <= beyond
    assert beyond <= exact * (1 - 3e-3) + 4e-3


@pytest.mark.parametrize("n", [10, KSTWO_EXACT_MAX * 10])
def test_kolmogorov_smirnov_ends(n):
    assert log_kstwo_sf(0.0, n) == 0.0
    assert log_kstwo_sf(1.0, n) == -math.inf


def test_errors():
    with pytest.raises(ValueError, match="shape > 0"):
        log_gamma_sf(1.0, 0.0)
    with pytest.raises(ValueError, match="x >= 0"):
        log_gamma_sf(math.nan, 1.0)
    with pytest.raises(ValueError, match=r"p in \[0, 1\]"):
        log_binom_sf(1, 2, 1.5)
    with pytest.raises(ValueError, match="n >= 0"):
        log_binom_cdf(1, -2, 0.5)
    with pytest.raises(ValueError, match="d >= 0"):
        log_kstwo_sf(math.nan, 5)


def poisson_sum(k, mean):
    """Log of the sum of Poisson probabilities from ``k`` downwards."""
    mean = mp.mpf(mean)
    term, total = mp.exp(k * mp.log(mean) - mean - mp.loggamma(k + 1)), mp.mpf(0)
    while k >= 0 and term > total * mp.mpf(10) ** -40:
        total += term
        term *= k / mean
        k -= 1
    return float(mp.log(total))


@pytest.mark.parametrize(
    ("mean", "k", "decades"),
    [(691.0, 0, 300), (6908.0, 0, 3000), (7000.0, 5, 3023), (1.04e6, 10**6, 341)],
)
def test_gamma_of_a_whole_shape_is_a_lower_poisson_tail(mean, k, decades):
    expected = poisson_sum(k, mean)
    assert expected == pytest.approx(-decades * math.log(10), rel=0.03)
    assert log_gamma_sf(mean, k + 1.0) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("z", [-40.0, -1.0, 0.0, 6.0, 37.04, 117.43, 1e4])
def test_normal(z):
    expected = float(mp.log(mp.ncdf(-mp.mpf(z)))) if z > -10 else -float(mp.ncdf(mp.mpf(z)))
    assert log_normal_sf(z) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_more_errors():
    with pytest.raises(ValueError, match="shape > 0"):
        log_gamma_sf(1.0, 0.0)
    with pytest.raises(ValueError, match="z is nan"):
        log_normal_sf(math.nan)
