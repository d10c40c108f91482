"""Cumulants of Poisson deviances against sums in mpmath."""

import mpmath as mp
import numpy as np
import pytest

from simverify.stats.counts.deviance import poisson_deviance_cumulants, sum_of_cumulants


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
