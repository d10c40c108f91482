"""Bets that a mean is above a limit: their size, their power, their edges."""

import numpy as np
import pytest

from simverify.stats import capped_mean_test, values_needed

LIMIT = 0.01


@pytest.mark.distribution
def test_size_and_power():
    """Of 4,000 samples at the limit few are rejected at 1 in 20; of those at five times it all."""
    rng = np.random.default_rng(0)

    def rejected(mean, draws):
        samples = rng.binomial(1, mean * 2, (draws, 400)) * 0.5
        tests = [capped_mean_test(y, limit=LIMIT, alpha=0.05, name="m") for y in samples]
        return np.mean([test.rejected for test in tests])

    assert rejected(LIMIT, 4000) < 0.05
    assert rejected(5 * LIMIT, 200) > 0.99


@pytest.mark.distribution
def test_a_mean_that_is_the_limit_only_on_average_is_not_rejected():
    rng = np.random.default_rng(1)
    means = np.where(np.arange(400) < 40, 10 * LIMIT, 0.0)
    samples = rng.binomial(1, means, (2000, 400)).astype(float)
    tests = [capped_mean_test(y, limit=LIMIT, alpha=0.05, name="m") for y in samples]
    assert np.mean([test.rejected for test in tests]) < 0.05


def test_how_many_values_were_needed():
    y = np.full(100, 0.3)
    n = values_needed(y, limit=LIMIT, alpha=1e-6)
    assert capped_mean_test(y[:n], limit=LIMIT, alpha=1e-6, name="m").rejected
    assert not capped_mean_test(y[: n - 1], limit=LIMIT, alpha=1e-6, name="m").rejected
    assert values_needed(np.zeros(100), limit=LIMIT, alpha=1e-6) is None


@pytest.mark.parametrize("values", [[], [np.nan], [1.5], [-0.1], [[0.1]]])
def test_values_outside_are_refused(values):
    with pytest.raises(ValueError, match="values have shape"):
        capped_mean_test(values, limit=LIMIT, alpha=0.1, name="m")


def test_limits_outside_are_refused():
    for limit, alpha in ((0.0, 0.1), (1.0, 0.1), (0.1, 0.0)):
        with pytest.raises(ValueError, match="expected"):
            capped_mean_test([0.1], limit=limit, alpha=alpha, name="m")
