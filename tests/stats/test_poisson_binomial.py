"""The tail of unequal coins, against products of polynomials and against equal coins."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import poisson_binom
from support.coin_tails import log_poisson_binomial_cdf, log_poisson_binomial_sf

from simverify.stats import support_violations
from simverify.stats.counts import poisson_deviance_cumulants, sum_of_cumulants
from simverify.stats.tails import log_binom_cdf, log_binom_sf

# Cumulants of Poisson deviances against sums in mpmath.


def exact(mean):
    with mp.workdps(40):
        m = mp.mpf(mean)
        reach = 40 + 16 * mp.sqrt(m)
        xs = range(max(0, int(m - reach)), int(m + reach) + 1)
        weights = [mp.exp(x * mp.log(m) - m - mp.loggamma(x + 1)) for x in xs]
        deviances = [2 * ((x * mp.log(x / m) if x else 0) - x + m) for x in xs]
        first = mp.fsum(w * d for w, d in zip(weights, deviances, strict=True))
        return [
            float(first),
            *(
                float(
                    mp.fsum(w * (d - first) ** k for w, d in zip(weights, deviances, strict=True))
                )
                for k in (2, 3)
            ),
        ]


@pytest.mark.parametrize("mean", [10.0, 10.7, 13.3, 25.0, 180.0, 3000.0])
def test_one_cell(mean):
    np.testing.assert_allclose(poisson_deviance_cumulants(mean), exact(mean), rtol=1e-10)
    np.testing.assert_allclose(sum_of_cumulants(np.array([mean])), exact(mean), rtol=1e-8)


def test_large_means_tend_to_chi2():
    np.testing.assert_allclose(sum_of_cumulants(np.array([1e9])), [1, 2, 8], rtol=1e-8)


def test_cells_add_up():
    means = np.array([10.0, 11.5, 40.0, 1e5])
    parts = sum(sum_of_cumulants(means[i : i + 1]) for i in range(4))
    np.testing.assert_allclose(sum_of_cumulants(means), parts, rtol=1e-12)
    np.testing.assert_allclose(sum_of_cumulants(means[:0]), np.zeros(3))


# Tokens of probability 0.


ROWS = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])


def test_clean_counts():
    result = support_violations(np.array([[9, 1, 0], [0, 7, 0], [0, 0, 0]]), ROWS)
    assert not result.rejected
    assert result.first is None
    assert result.tokens == 0


def test_one_token_is_enough_and_is_named():
    result = support_violations(np.array([[9, 1, 0], [2, 7, 1], [1, 1, 1]]), ROWS)
    assert result.rejected
    assert result.first == (1, 0, 2)
    assert result.tokens == 3


def test_tiny_probabilities_are_support():
    rows = np.array([[1.0, 5e-324]])
    assert not support_violations(np.array([[0, 3]]), rows).rejected


@pytest.mark.parametrize(
    ("counts", "rows", "message"),
    [
        (np.array([[1, -1]]), np.array([[0.5, 0.5]]), r"counts\[0, 1\] is -1"),
        (np.array([[1.0, 1.0]]), np.array([[0.5, 0.5]]), "dtype float64"),
        (np.array([1, 2]), np.array([0.5, 0.5]), r"shape \(2,\), expected 2 axes"),
        (np.array([[1, 2]]), np.array([[0.5, 0.25, 0.25]]), "probabilities has shape"),
        (np.array([[3]]), np.array([[1.0]]), "1 categories"),
        (np.array([[1, 2]]), np.array([[0.5, 0.4998]]), "row 0 sums to 0.9998"),
        (np.array([[1, 2]]), np.array([[1.5, -0.5]]), "row 0 has a negative or NaN"),
        (np.array([[1, 2]] * 2), np.array([[0.5, 0.5], [np.nan, 1.0]]), "row 1 has a negative"),
    ],
)
def test_errors(counts, rows, message):
    with pytest.raises(ValueError, match=message):
        support_violations(counts, rows)


def exact_law(probabilities):
    """Probabilities of 0..n hits in mpmath, coin by coin."""
    law = [mp.mpf(1)]
    for p in probabilities:
        p = mp.mpf(float(p))
        miss = [x * (1 - p) for x in law] + [mp.mpf(0)]
        law = [a + b for a, b in zip(miss, [mp.mpf(0)] + [x * p for x in law], strict=True)]
    return law


@pytest.mark.parametrize("shape", [(0.3, 0.3), (2, 2), (1, 50), (50, 1)])
def test_every_point_of_small_laws(shape):
    p = np.random.default_rng(71).beta(*shape, size=60)
    with mp.workdps(60):
        law = exact_law(p)
        for k in range(-1, 61):
            upper = mp.fsum(law[k + 1 :])
            lower = mp.fsum(law[: k + 1])
            for got, exact in (
                (log_poisson_binomial_sf(k, p, np.ones(60)), upper),
                (log_poisson_binomial_cdf(k, p, np.ones(60)), lower),
            ):
                if exact > mp.mpf(10) ** -40 or exact == 0:
                    expected = float(mp.log(exact)) if exact else -math.inf
                    assert got == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_the_body_is_that_of_scipy():
    p = np.random.default_rng(72).beta(1, 20, size=2000)
    law, middle = poisson_binom(p), round(p.sum())
    for k in range(middle - 30, middle + 31, 5):
        upper = log_poisson_binomial_sf(k, p, np.ones(2000))
        assert upper == pytest.approx(math.log(law.sf(k)), rel=1e-10, abs=1e-10)
        assert upper != pytest.approx(math.log(law.sf(k + 1)), rel=1e-3, abs=1e-12)


def test_coins_that_the_tilt_makes_fair_have_no_highest_wave():
    """A wave of an even period that is 0 exactly, whose logarithm is no error."""
    p, trials = np.array([1 / 3, 0.2]), np.array([9.0, 4.0])
    with mp.workdps(60):
        law = exact_law(np.repeat(p, trials.astype(int)))
        expected = float(mp.log(mp.fsum(law[8:])))
    assert log_poisson_binomial_sf(7, p, trials) == pytest.approx(expected, rel=1e-11)


def test_far_tails_of_unequal_coins():
    """1e-300 and 1e-3000, where a sum of probabilities would be 0."""
    p = np.concatenate([np.full(2500, 1e-4), np.full(500, 0.02)])
    with mp.workdps(60):
        one = [mp.binomial(2500, j) * mp.mpf(1e-4) ** j * (1 - mp.mpf(1e-4)) ** (2500 - j)
               for j in range(1600)]  # fmt: skip
        two = [mp.binomial(500, j) * mp.mpf(0.02) ** j * (1 - mp.mpf(0.02)) ** (500 - j)
               for j in range(501)]  # fmt: skip
        for k, decades in ((180, 155), (290, 300), (1290, 3000)):
            exact = mp.fsum(
                two[j] * mp.fsum(one[max(0, k + 1 - j) : max(0, k + 1 - j) + 120])
                for j in range(501)
            )
            expected = float(mp.log(exact))
            assert expected == pytest.approx(-decades * math.log(10), rel=0.2)
            assert log_poisson_binomial_sf(k, p, np.ones(3000)) == pytest.approx(
                expected, rel=1e-11
            )


@pytest.mark.parametrize(("n", "p"), [(10, 0.3), (10**6, 1e-6), (10**6, 0.3), (10**7, 0.5)])
def test_equal_coins_are_binomial(n, p):
    for z in (-60, -8, -3, -1, 0, 1, 3, 8, 60):
        k = int(n * p + z * math.sqrt(n * p * (1 - p)))
        if 0 <= k < n:
            upper, lower = log_binom_sf(k, n, p), log_binom_cdf(k, n, p)
            assert log_poisson_binomial_sf(k, [p], [n]) == pytest.approx(upper, rel=1e-8, abs=1e-8)
            assert log_poisson_binomial_cdf(k, [p], [n]) == pytest.approx(lower, rel=1e-8, abs=1e-8)


def test_sure_and_impossible_coins():
    assert log_poisson_binomial_sf(2, [0.0, 1.0], [5, 3]) == 0.0
    assert log_poisson_binomial_sf(3, [0.0, 1.0], [5, 3]) == -math.inf
    assert log_poisson_binomial_cdf(2, [0.0, 1.0], [5, 3]) == -math.inf
    half = log_poisson_binomial_sf(3, [0.0, 1.0, 0.5], [5, 3, 1])
    assert half == pytest.approx(math.log(0.5))
