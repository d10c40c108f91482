"""The law of the deviance of Poisson cells, whose sum is a G2 statistic.

Where each cell expects enough, the sum follows its first three cumulants: the deviance of
X ~ Poisson(m) is 2 (X ln(X/m) - X + m), and its cumulants tend to those of chi2 with one degree
of freedom, 1, 2 and 8, like 1/m. A gamma law with them smooths what is a lattice: on a lone row
of two cells, or of few tokens, its tail is up to 2.4 times too light at a level of 1e-6, where
three cells expect ten tokens each. With so few counts to choose from, every one of them can be
weighed instead; a row of two cells is a binomial.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from simverify.stats._checks import Floats
from simverify.stats.tails.log_tails import log_binom_cdf, log_binom_sf

MIN_EXPECTED = 10.0
"""Smallest mean served: cells are pooled until they expect this many counts."""

# In 1/m the cumulants are smooth on [0, 1/10]; degree 16 leaves errors below 1e-8 (tested).
_DEGREE = 16


def poisson_deviance_cumulants(mean: float) -> Floats:
    """First three cumulants (3,) of the deviance of Poisson(``mean``), summed term by term."""
    reach = 14.0 * np.sqrt(mean) + 40.0
    x = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1, dtype=np.float64)
    # As scipy.stats.poisson has it, whose import alone takes a worker half a second.
    weight = np.exp(special.xlogy(x, mean) - special.gammaln(x + 1.0) - mean)
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


MOST = 1 << 18
"""Counts of a row that are tried: a tenth of a second, and 25 MB for five cells."""

_EQUAL = 1e-12
"""Statistics that differ by less, relatively, are one value that was rounded in two ways."""


def outcomes(cells: int, n: int) -> int:
    """Return how many ways there are to put ``n`` tokens into ``cells``."""
    return math.comb(n + cells - 1, cells - 1)


def all_counts(cells: int, n: int) -> Floats:
    """Return every way to put ``n`` tokens into ``cells``, float64 (outcomes, cells)."""
    left, columns = np.array([n]), np.empty((1, 0), dtype=np.int64)
    for _ in range(cells - 1):
        ways = left + 1
        row = np.repeat(np.arange(len(left)), ways)
        first = np.cumsum(ways) - ways
        taken = np.arange(len(row)) - first[row]
        columns = np.column_stack([columns[row], taken])
        left = left[row] - taken
    return np.column_stack([columns, left]).astype(np.float64)


class LoneRow:
    """The law of G2 where ``n`` tokens fall on cells that expect so many of them each."""

    def __init__(self, expected: Floats) -> None:
        n = round(float(expected.sum()))
        counts = all_counts(len(expected), n)
        statistic = 2.0 * special.kl_div(counts, expected).sum(axis=1)
        log_mass = (special.xlogy(counts, expected / n) - special.gammaln(counts + 1.0)).sum(axis=1)
        order = np.argsort(-statistic, kind="stable")
        self._least = -statistic[order]
        self._log_tail = np.logaddexp.accumulate(log_mass[order]) + special.gammaln(n + 1.0)

    def log_sf(self, statistic: float) -> float:
        """Log of P(G2 >= statistic)."""
        slack = _EQUAL * max(1.0, abs(statistic))
        found = int(np.searchsorted(self._least, slack - statistic, side="right"))
        return min(0.0, float(self._log_tail[found - 1])) if found else -math.inf


@dataclass(frozen=True)
class TwoCells:
    """A binomial row: ``count`` of ``total`` in a cell of this ``probability``."""

    count: int
    total: int
    probability: float


def log_binomial_tail(cells: TwoCells, radius: float) -> float:
    """Log of P(G2 >= observed) for one binomial row."""
    n, p = cells.total, cells.probability
    if radius:
        # Within the ball the count lies between those of the two ends.
        upper = log_binom_sf(cells.count - 1, n, min(p + radius, 1.0))
        lower = log_binom_cdf(cells.count, n, max(p - radius, 0.0))
        return min(0.0, math.log(2.0) + min(upper, lower))

    def deviance(k: int) -> float:
        return float(special.kl_div(k, n * p) + special.kl_div(n - k, n * (1.0 - p)))

    # Equal values on the two sides of the mean must not be split by rounding.
    level = deviance(cells.count) * (1.0 - 1e-12)
    centre = math.floor(n * p)
    low = _last_true(lambda k: deviance(centre - k) < level, centre)
    high = _last_true(lambda k: deviance(centre + 1 + k) < level, n - centre - 1)
    lower = log_binom_cdf(centre - low - 1, n, p)
    upper = log_binom_sf(centre + 1 + high, n, p)
    return min(0.0, float(np.logaddexp(lower, upper)))


def _last_true(holds: Callable[[int], bool], largest: int) -> int:
    """Largest k in 0..largest with ``holds`` true up to there, -1 if there is none."""
    low, high = -1, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
