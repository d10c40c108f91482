import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.comparing.documents import STEPS, pit_curves

BINS = 1 << 12


def histogram(*positions):
    return np.array([[np.bincount(bins, minlength=BINS) for bins in positions]] * 2)


def test_a_uniform_histogram_has_no_differences():
    first, second = pit_curves(histogram(np.arange(BINS), np.arange(BINS)))
    assert (first.order, second.order) == ("q/p order", "token order")
    assert first.n == 2 * BINS
    assert first.differences == (0.0,) * (STEPS + 1)


def test_positions_are_put_together_and_differences_are_those_of_the_distribution_function():
    lower_half = np.arange(BINS // 2)
    curve, _ = pit_curves(histogram(lower_half, np.arange(BINS)))
    u = np.linspace(0, 1, STEPS + 1)
    expected = (np.minimum(2 * u, 1) + 2 * u) / 3 - u
    np.testing.assert_allclose(curve.differences, expected, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 0, BINS), (2, 3, BINS)])
def test_no_tokens_make_no_curve(shape):
    assert pit_curves(np.zeros(shape, dtype=np.int64)) == ()


def leaves(draw, n, runs):
    """Number of runs whose curve leaves its band somewhere."""
    total = 0
    for _ in range(runs):
        curve, _ = pit_curves(histogram((draw(n) * BINS).astype(int)))
        total += max(map(abs, curve.differences)) > curve.band
    return total


@pytest.mark.distribution
def test_the_band_holds_as_often_as_it_says():
    rng = np.random.default_rng(20260)
    runs = 3000
    assert stats.binom.sf(leaves(rng.random, 2000, runs) - 1, runs, 1e-3) > ALPHA
    # The wrong law: q/p order is left of uniform by a TV of .07.
    assert leaves(lambda n: rng.beta(1.0, 1.2, n), 2000, 100) > 50
