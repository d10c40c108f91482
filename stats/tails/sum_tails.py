"""Upper tails of sums of independent finite variables, from their exact cumulant function.

The variables are what one token contributes in one context: ``totals[c]`` tokens are drawn
from row c and each adds ``values[c, x]``. So a log-likelihood ratio summed over repeated
contexts has this law, given how often each context came.

A sum is told by what it lacks: its deficit, how far each token's value lies below the largest
one of its context. Differences of near numbers are exact in floating point, and a sum of
numbers that are not negative keeps its digits. So values that differ by an ulp, as those of a
ratio do that should be constant, are judged like any others: what was seen and what could have
been are the same numbers, and no tolerance stands between them.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from simverify.stats._checks import Floats, Ints
from simverify.stats.tails.saddlepoint import lugannani_rice

# Where the tilt passes this many nats per range of a value, the sum is at its maximum.
_MOST_TILT = 1e4


def sum_deficit(values: Floats, probabilities: Floats, counts: Ints) -> float:
    """How far the sum of the ``counts`` int64 (contexts, V) lies below the largest there is.

    Tokens of probability 0 do not count. Other parameters are those of :func:`log_sum_sf`.
    """
    deficits, possible = _deficits(values, probabilities)
    return float(np.where(possible, counts * deficits, 0.0).sum())


def log_sum_sf(values: Floats, probabilities: Floats, totals: Ints, deficit: float) -> float:
    """Log of P(the sum lacks at most ``deficit``), never above the Chernoff bound.

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
    deficit : float
        As :func:`sum_deficit` has it of the tokens seen; -inf below 0, which no sum reaches.

    References
    ----------
    .. [1] Lugannani and Rice, "Saddle point approximation for the distribution of the sum of
       independent random variables", Adv. Appl. Prob. 12, 1980.
    .. [2] Daniels, "Tail probability approximations", Int. Stat. Rev. 55, 1987 (section 6,
       lattices).
    """
    law = _Law(values, probabilities, totals)
    if math.isinf(law.log_mass) or deficit < 0.0:
        return -math.inf
    if deficit == 0.0:
        return law.log_mass + law.log_at_most
    point = -deficit / law.widest if law.widest > 0.0 else 0.0
    if point <= law.cumulants(0.0)[1]:
        return law.log_mass
    t = law.saddle_point(point)
    k, mean, variance = law.cumulants(t)
    if mean < point and t >= _MOST_TILT:
        # The saddle point lies further out: every tilt bounds the tail, none but it is close.
        return law.log_mass + min(k - t * point, 0.0)
    # The formula knows t by way of t sqrt(variance) alone, where the step stands for it.
    step = -math.expm1(-t)
    return law.log_mass + lugannani_rice(t, k, point, variance * (step / t) ** 2)


def log_sum_bound(
    values: Floats, probabilities: Floats, totals: Ints, threshold: float, *, ball: float
) -> float:
    """Upper bound on log P(sum >= ``threshold``) for all rows within TV ``ball`` of these.

    Chernoff's bound: the expectation of exp(t value) grows by at most ``ball`` times its
    range over all tokens of the row, those of probability 0 included. Parameters are those
    of :func:`log_sum_sf`; no value is +inf.
    """
    used = totals > 0
    rows, number = probabilities[used], totals[used].astype(np.float64)
    rows = rows / rows.sum(axis=1, keepdims=True)
    most = values[used].max(axis=1)
    deficits = most[:, None] - values[used]
    widths, lacked = deficits.max(axis=1), float(number @ most) - threshold

    def exponent(t: float) -> float:
        moments = (rows * np.exp(-t * deficits)).sum(axis=1) - ball * np.expm1(-t * widths)
        return float(number @ np.log(moments)) + t * lacked

    best = optimize.minimize_scalar(exponent, bounds=(1e-9, 4.0), method="bounded")
    return min(0.0, float(best.fun))


def _deficits(values: Floats, rows: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """How far each value lies below its context's largest, and which are possible and finite."""
    possible = (rows > 0.0) & (values > -math.inf)
    most = np.where(possible, values, -math.inf).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a context whose tokens are all excluded
        deficits = np.where(possible, most - values, 0.0)
    return deficits, possible


class _Law:
    """The law of minus the deficit, given that no token made the sum -inf.

    It is in units of the ``widest`` range of values in one context. ``log_mass`` is the log
    probability of what is given, ``log_at_most`` that of a deficit of 0 then.
    """

    def __init__(self, values: Floats, probabilities: Floats, totals: Ints) -> None:
        used = totals > 0
        rows, self.totals = probabilities[used], totals[used].astype(np.float64)
        deficits, possible = _deficits(values[used], rows)
        masses = np.where(possible, rows, 0.0).sum(axis=1)
        # Where nothing is excluded the mass is 1, whatever the row's last digits say.
        whole = (possible == (rows > 0.0)).all(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that has no such token
            self._log_rows = np.where(possible, np.log(rows / masses[:, None]), -math.inf)
            log_masses = np.where(whole, 0.0, np.log(masses / rows.sum(axis=1)))
        self.log_mass = float(self.totals @ log_masses)
        at_most = np.where(deficits == 0.0, self._log_rows, -math.inf)
        varies = (deficits > 0.0).any(axis=1)
        self.log_at_most = float(
            self.totals @ np.where(varies, special.logsumexp(at_most, axis=1), 0.0)
        )
        self.widest = float(deficits.max(initial=0.0))
        self._values = -deficits / self.widest if self.widest > 0.0 else deficits

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

    def saddle_point(self, point: float) -> float:
        """Find the t > 0 at which the tilted mean is ``point``, by Newton in a bracket.

        ``_MOST_TILT`` if it is there or beyond.
        """
        low, high = 0.0, math.inf
        _, mean, variance = self.cumulants(0.0)
        t = min((point - mean) / variance, _MOST_TILT) if variance > 0.0 else _MOST_TILT
        for _ in range(200):
            _, mean, variance = self.cumulants(t)
            low, high = (t, high) if mean < point else (low, t)
            if math.isinf(high) and t >= _MOST_TILT:
                break
            following = t + (point - mean) / variance if variance > 0.0 else math.inf
            if not low < following < high:
                following = 2.0 * t if math.isinf(high) else (low + high) / 2.0
            following = min(following, _MOST_TILT)
            if abs(following - t) <= 1e-11 * t:
                break
            t = following
        return t
