"""The weighted collision statistic and its null law, given the row totals.

It is a sum over ordered pairs of different tokens of h(x, y) = sum_i w_i (1{x=i} - p_i)
(1{y=i} - p_i), whose mean given either argument is 0: its first three moments are sums over
tokens, and its limit law is one of weighted chi-squares.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from simverify.stats._checks import Floats, Ints
from simverify.stats.tails.saddlepoint import lugannani_rice

PAIR_SHARE = 0.25
"""Standard deviations by which a pair of tokens in one cell may move the statistic."""

_LEAST_FLOOR = 1e-15


def weights(rows: Floats, floor: float) -> Floats:
    """max(p, p0)^(-2/3), and 0 where p is: such a token fails the support test."""
    return np.where(rows > 0.0, np.maximum(rows, floor) ** (-2.0 / 3.0), 0.0)


def statistic(counts: Ints, totals: Floats, rows: Floats, floor: float) -> float:
    """sum(((X - Np)^2 - X) w) less what is linear in X - Np, over all rows; mean 0."""
    w = weights(rows, floor)
    off = counts - totals[:, None] * rows
    pairs = float((w * (off * off - counts)).sum())
    linear = 2.0 * float((w * rows * off).sum())
    return pairs + linear + float(totals @ (w * rows * rows).sum(axis=1))


class Moves:
    """What moving tokens can take from the statistic at most.

    Taking a token out of a cell and putting one into another gain by themselves, the less the
    more are moved there: the statistic is convex in every count. Nothing is put where P is 0.
    """

    def __init__(self, counts: Ints, totals: Floats, rows: Floats, floor: float) -> None:
        w, off = weights(rows, floor), counts - totals[:, None] * rows
        self._out = _sums_of_gains(w, off - 1.0 + rows)
        self._in = _sums_of_gains(w, -off - rows)

    def gain(self, moves: int) -> float:
        """Largest fall of the statistic by so many moves, or a little more."""
        if moves == 0:
            return 0.0
        return sum(float(g[min(moves, g.size) - 1]) for g in (self._out, self._in) if g.size)


def _sums_of_gains(w: Floats, first: Floats) -> Floats:
    """Sums of the largest gains: 2 w (first - k) by the k-th token of a cell, while positive."""
    times = np.maximum(np.ceil(first), 0.0).astype(np.int64).ravel()
    nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    gains = 2.0 * np.repeat(w.ravel(), times) * (np.repeat(first.ravel(), times) - nth)
    return np.cumsum(np.sort(gains)[::-1])


def least_floor(totals: Floats, rows: Floats) -> float:
    """Smallest floor at which a pair moves the statistic little enough, inf if none is."""

    def excess(log_floor: float) -> float:
        floor = math.exp(log_floor)
        variance = moments(totals, rows, floor)[0]
        pair = 2.0 * floor ** (-2.0 / 3.0)
        return pair / math.sqrt(variance) - PAIR_SHARE if variance > 0.0 else math.inf

    low, high = math.log(_LEAST_FLOOR), math.log(float(rows.max()))
    if excess(high) > 0.0:
        return math.inf
    if excess(low) <= 0.0:
        return _LEAST_FLOOR
    root = float(optimize.brentq(excess, low, high, xtol=1e-3))
    # The root may lie on either side by its tolerance.
    return math.exp(min(root + 1e-3, high))


def moments(totals: Floats, rows: Floats, floor: float) -> tuple[float, float]:
    """Variance and third central moment, exact, given the row totals."""
    w = weights(rows, floor)
    g = w * rows
    e = (g * rows).sum(axis=1)[:, None] / 2.0 - g
    e1, e2, e3 = ((rows * e**k).sum(axis=1) for k in (1, 2, 3))
    # h = e_x + e_y, and w_x more where x = y.
    square = 2.0 * e2 + 2.0 * e1**2 + (rows**2 * w * (w + 4.0 * e)).sum(axis=1)
    jump = w * (w**2 + 6.0 * w * e + 12.0 * e**2)
    cube = 2.0 * e3 + 6.0 * e2 * e1 + (rows**2 * jump).sum(axis=1)
    pairs = totals * (totals - 1.0)
    variance = float(2.0 * pairs @ square)
    third = float(4.0 * pairs @ cube + 8.0 * (pairs * (totals - 2.0)) @ _cycle(rows, g, 3))
    return variance, third


def _cycle(rows: Floats, g: Floats, power: int) -> Floats:
    """Trace of the square or the cube of diag(g) - g p' for each row (contexts,)."""
    g1, g2, g3 = ((rows * g**k).sum(axis=1) for k in (1, 2, 3))
    traces: dict[int, Floats] = {
        2: (g**2).sum(axis=1) - 2.0 * g2 + g1**2,
        3: (g**3).sum(axis=1) - 3.0 * g3 + 3.0 * g2 * g1 - g1**3,
    }
    return traces[power]


@dataclass(frozen=True, eq=False)
class CollisionLaw:
    """Null law of the statistic: weighted chi-squares, and what is left of four cumulants.

    Attributes
    ----------
    floor : float
        p0, below which weights do not grow.
    variance, third : float
        Exact central moments.
    scaled, rows : float64 arrays (contexts, V)
        N w p, and p.
    rest : tuple of float
        Second to fourth cumulants of the counts' discreteness: the statistic's less those of
        the chi-squares; the fourth that of Poisson cells, 144 m^3 + 8 m^2 times w^4.
    """

    floor: float
    variance: float
    third: float
    scaled: Floats
    rows: Floats
    rest: tuple[float, float, float]

    @classmethod
    def of(cls, totals: Floats, rows: Floats, floor: float) -> "CollisionLaw":
        """Law for these row totals (contexts,) and rows (contexts, V)."""
        variance, third = moments(totals, rows, floor)
        w = weights(rows, floor)
        g, means = w * rows, totals[:, None] * rows
        second_rest = variance - 2.0 * float(totals**2 @ _cycle(rows, g, 2))
        third_rest = third - 8.0 * float(totals**3 @ _cycle(rows, g, 3))
        fourth_rest = float((w**4 * (144.0 * means**3 + 8.0 * means**2)).sum())
        rest = second_rest, third_rest, fourth_rest
        return cls(floor, variance, third, totals[:, None] * g, rows, rest)

    @property
    def skewness(self) -> float:
        """Third standardised moment."""
        return float(self.third / self.variance**1.5)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Cumulant generating function and its first two derivatives, 0 <= tilt < end."""
        a = self._others
        shrink = 1.0 - 2.0 * tilt * a
        f, f1, f2 = self._determinant(tilt)
        trace = float(self.scaled.sum() - (self.scaled * self.rows).sum())
        value = -0.5 * float(np.log(shrink).sum() + np.log(f).sum()) - tilt * trace
        first = float((a / shrink).sum() - 0.5 * (f1 / f).sum()) - trace
        second = float((2.0 * (a / shrink) ** 2).sum() - 0.5 * (f2 / f - (f1 / f) ** 2).sum())
        c2, c3, c4 = self.rest
        value += tilt**2 * c2 / 2.0 + tilt**3 * c3 / 6.0 + tilt**4 * c4 / 24.0
        first += tilt * c2 + tilt**2 * c3 / 2.0 + tilt**3 * c4 / 6.0
        second += c2 + tilt * c3 + tilt**2 * c4 / 2.0
        return value, first, second

    @functools.cached_property
    def _others(self) -> Floats:
        """``scaled`` without each row's largest, whose pole is no pole of the law."""
        others = self.scaled.copy()
        np.put_along_axis(others, self.scaled.argmax(axis=1)[:, None], 0.0, axis=1)
        return others

    def _determinant(self, tilt: float) -> tuple[Floats, Floats, Floats]:
        """Each row's det(I - 2 tilt (diag(a) - a p')) over the other cells' factors.

        By the lemma for an update of rank one; with its first two derivatives.
        """
        a, p = self._others, self.rows
        row, top = np.arange(len(a)), self.scaled.argmax(axis=1)
        largest, share = self.scaled[row, top], p[row, top]
        shrink, factor = 1.0 - 2.0 * tilt * a, 1.0 - 2.0 * tilt * largest
        r = 1.0 + 2.0 * tilt * (a * p / shrink).sum(axis=1)
        r1 = 2.0 * (a * p / shrink**2).sum(axis=1)
        r2 = 8.0 * (a * a * p / shrink**3).sum(axis=1)
        f = factor * r + 2.0 * tilt * largest * share
        f1 = 2.0 * largest * (share - r) + factor * r1
        return f, f1, factor * r2 - 4.0 * largest * r1

    @functools.cached_property
    def _end(self) -> float:
        """Where the cumulant generating function ends: half over the largest eigenvalue."""
        low = 0.5 / float(self.scaled.max())
        high = 0.5 / float(self._others.max()) * (1.0 - 1e-12)
        for _ in range(60):
            middle = (low + high) / 2.0
            inside = bool((self._determinant(middle)[0] > 0.0).all())
            low, high = (middle, high) if inside else (low, middle)
        return min(low, high) * (1.0 - 1e-9)

    def log_sf(self, x: float) -> float:
        """Log of P(statistic >= x)."""
        if x < 1e-3 * math.sqrt(self.variance):
            return 0.0
        if self.at(self._end)[1] <= x:
            # The tail beyond is lighter than the largest chi-square's.
            return self._log_tail(self._end) - self._end * (x - self.at(self._end)[1])
        tilt = optimize.brentq(lambda t: self.at(t)[1] - x, 0.0, self._end, xtol=1e-300, rtol=1e-14)
        return self._log_tail(tilt)

    def critical(self, log_tail: float) -> float:
        """Point at which the log tail is ``log_tail``, below log(1/2)."""
        low = 1e-2 / math.sqrt(self.variance)
        tilt = optimize.brentq(
            lambda t: self._log_tail(t) - log_tail,
            min(low, self._end / 2),
            self._end,
            xtol=1e-300,
            rtol=1e-14,
        )
        return self.at(tilt)[1]

    def _log_tail(self, tilt: float) -> float:
        return lugannani_rice(tilt, *self.at(tilt))
