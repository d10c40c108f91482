"""Exact cumulants of the deviance of one Poisson cell.

The deviance of X ~ Poisson(m) is 2 (X ln(X/m) - X + m). Its first three cumulants tend to
those of chi2 with one degree of freedom, 1, 2 and 8, like 1/m.
"""

import functools

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special, stats

from simverify.stats._checks import Floats

MIN_EXPECTED = 10.0
"""Smallest mean served: cells are pooled until they expect this many counts."""

# In 1/m the cumulants are smooth on [0, 1/10]; degree 16 leaves errors below 1e-8 (tested).
_DEGREE = 16


def poisson_deviance_cumulants(mean: float) -> Floats:
    """First three cumulants (3,) of the deviance of Poisson(``mean``), summed term by term."""
    reach = 14.0 * np.sqrt(mean) + 40.0
    x = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1, dtype=np.float64)
    weight = stats.poisson.pmf(x, mean)
    deviance = 2.0 * special.kl_div(x, mean)
    first = float(weight @ deviance)
    centred = deviance - first
    return np.array([first, weight @ centred**2, weight @ centred**3])


@functools.cache
def _coefficients() -> Floats:
    nodes = chebyshev.chebpts1(_DEGREE + 1)
    means = 2.0 * MIN_EXPECTED / (nodes + 1.0)
    values = np.array([poisson_deviance_cumulants(mean) for mean in means])
    return chebyshev.chebfit(nodes, values, _DEGREE)


def sum_of_cumulants(means: Floats) -> Floats:
    """First three cumulants (3,) of the summed deviances of independent Poisson cells.

    ``means`` float64 (cells,), each at least 10.
    """
    # A sum of polynomials is a polynomial of summed bases: one pass serves all three.
    position = 2.0 * MIN_EXPECTED / means - 1.0
    basis_sums = np.empty(_DEGREE + 1)
    previous, current = np.ones_like(position), position
    basis_sums[0] = means.size
    for degree in range(1, _DEGREE + 1):
        basis_sums[degree] = current.sum()
        previous, current = current, 2.0 * position * current - previous
    return basis_sums @ _coefficients()
