"""Upper tails of sums of independent finite variables, from their exact cumulant function.

The variables are what one token contributes in one context: ``totals[c]`` tokens are drawn
from row c and each adds ``values[c, x]``. So a log-likelihood ratio summed over repeated
contexts has this law, given how often each context came.
"""

import math

import numpy as np
from scipy import optimize, special

from simverify.stats._checks import Floats, Ints
from simverify.stats.tails.saddlepoint import lugannani_rice

# Where the tilt passes this many nats per unit of range, the sum is at its maximum.
_MOST_TILT = 1e4


def log_sum_sf(values: Floats, probabilities: Floats, totals: Ints, threshold: float) -> float:
    """Log of P(sum >= ``threshold``), at most the Chernoff bound.

    The saddle-point formula of Lugannani and Rice in its form for a lattice of step h: at the
    saddle point t, (1 - exp(-t h)) / h stands for t. h is the widest range of values in one
    context, so that every lattice hidden in them is covered. At or below the mean the answer
    is that no token made the sum -inf: no test rejects there.

    Parameters
    ----------
    values : float64 array (contexts, V)
        What a token adds; -inf for one that makes the sum -inf. Entries of probability 0 are
        ignored.
    probabilities : float64 array (contexts, V)
        Rows that sum to 1.
    totals : int64 array (contexts,)
        Tokens drawn from each row.

    References
    ----------
    .. [1] Lugannani and Rice, "Saddle point approximation for the distribution of the sum of
       independent random variables", Adv. Appl. Prob. 12, 1980.
    .. [2] Daniels, "Tail probability approximations", Int. Stat. Rev. 55, 1987 (section 6,
       lattices).
    """
    law = _Law(values, probabilities, totals)
    if math.isinf(law.log_mass):
        return -math.inf
    if threshold > law.most + 2.0 * law.slack:
        return -math.inf
    if threshold >= law.most - law.slack:
        return law.log_at_most
    if threshold <= law.cumulants(0.0)[1]:
        return law.log_mass
    t = law.saddle_point(threshold)
    k, _, variance = law.cumulants(t)
    step = -math.expm1(-t * law.widest) / law.widest
    # The formula knows t by way of t sqrt(variance) alone, where step stands for it.
    tail = lugannani_rice(t, k, threshold, variance * (step / t) ** 2)
    return law.log_mass + tail


def log_sum_bound(
    values: Floats, probabilities: Floats, totals: Ints, threshold: float, *, ball: float
) -> float:
    """Upper bound on log P(sum >= ``threshold``) for all rows within TV ``ball`` of these.

    Chernoff's bound: the expectation of exp(t value) grows by at most ``ball`` times its
    range over all tokens of the row, those of probability 0 included. Parameters are those
    of :func:`log_sum_sf`; no value is +inf.
    """
    law = _Law(values, probabilities, totals)
    high, low = values[totals > 0].max(axis=1), values[totals > 0].min(axis=1)

    def exponent(t: float) -> float:
        moments = np.exp(law.context_cumulants(t) + law.log_masses)
        moments += ball * (np.exp(t * high) - np.exp(t * low))
        return float(law.totals @ np.log(moments)) - t * threshold

    best = optimize.minimize_scalar(exponent, bounds=(1e-9, 4.0), method="bounded")
    return min(0.0, float(best.fun))


class _Law:
    """The law of the sum, given that no token made it -inf; ``log_mass`` is that event's."""

    def __init__(self, values: Floats, probabilities: Floats, totals: Ints) -> None:
        used = totals > 0
        values, rows = values[used], probabilities[used]
        possible = (rows > 0.0) & (values > -math.inf)
        self.totals = totals[used].astype(np.float64)
        masses = np.where(possible, rows, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that has no such token
            self.log_masses = np.minimum(np.log(masses), 0.0)
            self._log_rows = np.where(possible, np.log(rows / masses[:, None]), -math.inf)
        self.log_mass = float(self.totals @ self.log_masses)
        self._values = np.where(possible, values, 0.0)
        high = np.where(possible, values, -math.inf).max(axis=1)
        low = np.where(possible, values, math.inf).min(axis=1)
        self.widest = float((high - low).max())
        self.most = float(self.totals @ high)
        # Sums of so many terms agree to about this.
        self.slack = 1e-12 * float(self.totals @ np.abs(high))
        at_high = np.where(possible & (values == high[:, None]), self._log_rows, -math.inf)
        self.log_at_most = self.log_mass + float(self.totals @ special.logsumexp(at_high, axis=1))

    def context_cumulants(self, t: float) -> Floats:
        """Log of E exp(t value), for each context."""
        result: Floats = special.logsumexp(self._log_rows + t * self._values, axis=1)
        return result

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Value of the sum's cumulant function at ``t`` and of its first two derivatives."""
        logs = self._log_rows + t * self._values
        top = logs.max(axis=1)
        tilted = np.exp(logs - top[:, None])
        masses = tilted.sum(axis=1)
        k = top + np.log(masses)
        tilted /= masses[:, None]
        means = (tilted * self._values).sum(axis=1)
        variances = (tilted * (self._values - means[:, None]) ** 2).sum(axis=1)
        return float(self.totals @ k), float(self.totals @ means), float(self.totals @ variances)

    def saddle_point(self, threshold: float) -> float:
        """Find the t > 0 at which the tilted mean is ``threshold``, by Newton in a bracket."""
        low, high, most = 0.0, math.inf, _MOST_TILT / self.widest
        _, mean, variance = self.cumulants(0.0)
        t = min((threshold - mean) / variance, most)
        for _ in range(200):
            _, mean, variance = self.cumulants(t)
            low, high = (t, high) if mean < threshold else (low, t)
            following = t + (threshold - mean) / variance if variance > 0.0 else math.inf
            if not low < following < high:
                following = 2.0 * t if math.isinf(high) else (low + high) / 2.0
            # Any t below it gives a bound; at ``most`` the sum is as good as at its maximum.
            if abs(following - t) <= 1e-11 * t or (math.isinf(high) and t >= most):
                return t
            t = following
        return t
