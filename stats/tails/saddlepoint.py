"""Tail of a sum of scores from its exact cumulant generating function, by Lugannani and Rice."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from simverify.stats._checks import Floats
from simverify.stats.scores.functions import centre
from simverify.stats.scores.score_totals import ScoreTable

_MOST_STEPS = 200
"""Steps to a critical point; a few do, unless the law is beyond floating point."""

_MOST_TILT = 1e6
"""Nats per widest range of a token's scores at which a sum is as good as at its maximum."""


def lugannani_rice(tilt: float, value: float, mean: float, variance: float) -> float:
    """Log of P(X >= mean), from X's cumulant generating function and derivatives at ``tilt``.

    ``tilt`` > 0. Chernoff's bound where it is smaller or the formula breaks down: at X's mean
    and at the end of its support.
    """
    exponent = max(tilt * mean - value, 0.0)
    signed, unsigned = math.sqrt(2.0 * exponent), tilt * math.sqrt(variance)
    if signed < 1e-3 or unsigned == 0.0:
        return -exponent
    mills = math.sqrt(math.pi / 2.0) * float(special.erfcx(signed / math.sqrt(2.0)))
    factor = mills + 1.0 / unsigned - 1.0 / signed
    log_density = -exponent - 0.5 * math.log(2.0 * math.pi)
    return min(-exponent, log_density + math.log(factor)) if factor > 0.0 else -exponent


@dataclass(frozen=True, eq=False)
class SumLaw:
    """Law of ``sign`` times a sum of centred scores over repeated contexts.

    The tail of a sum on a lattice is read half a step nearer the mean, as a continuity
    correction does; the step is not known, so that the widest gap between neighbouring
    scores stands for it, which never makes a tail too light.

    References
    ----------
    Lugannani and Rice, "Saddle point approximation for the distribution of the sum of
    independent random variables", Advances in Applied Probability 12 (1980) 475-490.
    """

    tables: tuple[ScoreTable, ...]
    reach: float
    width: float
    half_step: float

    @classmethod
    def of(cls, tables: tuple[ScoreTable, ...], sign: float) -> "SumLaw":
        """Centre the scores; contexts without a token drop out."""
        centred, reach, width, step = [], 0.0, 0.0, 0.0
        for table in tables:
            seen = table.totals > 0.0
            totals, rows = table.totals[seen], table.rows[seen]
            scores = sign * centre(rows, table.scores[seen])
            # What cannot happen must not be the maximum: it becomes a twin of what can.
            scores = np.where(rows > 0.0, scores, _some_possible(rows, scores)[:, None])
            centred.append(ScoreTable(totals=totals, rows=rows, scores=scores))
            reach += float(totals @ scores.max(axis=1))
            width = max(width, float(np.ptp(scores, axis=1).max(initial=0.0)))
            step = max(step, float(np.diff(np.sort(scores, axis=1), axis=1).max(initial=0.0)))
        return cls(tuple(centred), reach, width, step / 2.0)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Cumulant generating function and its first two derivatives."""
        value = first = second = 0.0
        for table in self.tables:
            top = table.scores.max(axis=1)
            weight = table.rows * np.exp(tilt * (table.scores - top[:, None]))
            mass = weight.sum(axis=1)
            mean = (weight * table.scores).sum(axis=1) / mass
            spread = (weight * (table.scores - mean[:, None]) ** 2).sum(axis=1) / mass
            value += float(table.totals @ (np.log(mass) + tilt * top))
            first += float(table.totals @ mean)
            second += float(table.totals @ spread)
        return value, first, second

    def log_sf(self, x: float) -> float:
        """Log of P(sum >= x), x >= 0: an upper bound but for the saddle point's own error."""
        if x > self.reach * (1.0 + 1e-12):
            return -math.inf
        x = x - self.half_step
        deviation = math.sqrt(self.at(0.0)[2])
        if x < 1e-3 * deviation:
            return math.log(0.5)
        tilt = self._tilt(x)
        value, mean, variance = self.at(tilt)
        if tilt >= self._most_tilt and mean < x:
            # The saddle point lies further out: every tilt bounds the tail.
            return min(value - tilt * x, 0.0)
        return lugannani_rice(tilt, value, mean, variance)

    def critical(self, log_tail: float) -> float:
        """Smallest x whose log tail is ``log_tail``, inf if the sum does not reach it."""
        deviation = math.sqrt(self.at(0.0)[2])
        if self.reach <= 0.0 or deviation == 0.0:
            return math.inf
        # A sum of rare events deviates by less than one of them adds.
        scale = max(deviation, self.width)
        least = 0.05 / scale
        tilt = max(-float(special.ndtri_exp(log_tail)) / scale, least)  # a normal sum's
        low, high = least, math.inf
        for _ in range(_MOST_STEPS):
            value, mean, variance = self.at(tilt)
            gap = lugannani_rice(tilt, value, mean, variance) - log_tail
            if gap > 0.0 and (mean > self.reach * (1.0 - 1e-9) or tilt >= self._most_tilt):
                return math.inf
            low, high = (tilt, high) if gap > 0.0 else (low, tilt)
            # Newton's method: the exponent K(t) - t K'(t) falls by t K''(t).
            following = tilt + gap / (tilt * variance) if variance > 0.0 else math.inf
            if not low < following < high:
                following = 1.25 * tilt if math.isinf(high) else (low + high) / 2.0
            if abs(following - tilt) <= 1e-4 * tilt:
                return mean + (following - tilt) * variance + self.half_step
            tilt = min(following, self._most_tilt)
        return math.inf

    @property
    def _most_tilt(self) -> float:
        """Where the sum is as good as at its maximum, in nats per unit."""
        return _MOST_TILT / self.width if self.width > 0.0 else math.inf

    def _tilt(self, x: float) -> float:
        """Tilt at which the mean is x, by Newton's method kept in its bracket.

        ``_most_tilt`` if it is there or beyond.
        """
        low, high, most = 0.0, math.inf, self._most_tilt
        # The variance of rare events rises too fast for a first step from 0.
        tilt = min(x / self.at(0.0)[2], 1.0 / self.width)
        for _ in range(_MOST_STEPS):
            _, mean, variance = self.at(tilt)
            low, high = (tilt, high) if mean < x else (low, tilt)
            if math.isinf(high) and tilt >= most:
                break
            following = tilt - (mean - x) / variance if variance > 0.0 else math.inf
            if not low < following < high:
                following = 2.0 * tilt if math.isinf(high) else (low + high) / 2.0
            following = min(following, most)
            if abs(following - tilt) <= 1e-10 * tilt:
                break
            tilt = following
        return tilt


def _some_possible(rows: Floats, scores: Floats) -> Floats:
    possible: Floats = scores[np.arange(len(rows)), rows.argmax(axis=1)]
    return possible
