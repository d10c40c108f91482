"""The exact law of a weighted collision statistic given N, for rows of few distinct values.

Poisson cells, their characteristic functions in the statistic and in the count multiplied
out, and the count inverted at N: nothing is approximated but by quadrature, to 1e-12.
"""

import math

import numpy as np
from scipy import stats


def log_characteristic(values, multiplicity, n, function, waves, count_waves):
    """Log of E exp(i wave T + i count_wave M) for Poisson cells; (waves, count_waves)."""
    total = np.zeros((waves.size, count_waves.size), dtype=complex)
    for value, times in zip(values, multiplicity, strict=True):
        mean = n * value
        reach = 12 * math.sqrt(mean) + 40
        x = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1)
        left = np.exp(1j * np.outer(waves, function(x, value))) * stats.poisson.pmf(x, mean)
        right = np.exp(1j * np.outer(x - mean, count_waves))
        total += times * np.log(left @ right)
    return total


def upper_tail(values, multiplicity, n, function, deviation, points):
    """P(T > point) given that the cells hold n in all, for each of ``points``.

    ``function(x, value)`` is a cell's term; ``deviation`` the standard deviation of T.
    """
    span = 80.0 * deviation
    harmonics = np.arange(800)
    waves = 2 * math.pi / span * harmonics
    count_waves = np.linspace(-10, 10, 161) / math.sqrt(n)
    joint = log_characteristic(values, multiplicity, n, function, waves, count_waves)
    # Branches of the logarithm turn by whole circles, which the exponential forgets.
    given = np.exp(joint).sum(axis=1)
    # Wave 0 is the probability that the cells hold n.
    given, harmonics, waves = given[1:] / given[0], harmonics[1:], waves[1:]
    tails = []
    for point in points:
        # Fourier series of the periodised indicator of (point, point + span / 2).
        ends = np.exp(-1j * waves * point), np.exp(-1j * waves * (point + span / 2))
        coefficients = (ends[0] - ends[1]) / (1j * math.pi * harmonics)
        tails.append(0.5 + (coefficients * given).real.sum())
    return np.array(tails)
