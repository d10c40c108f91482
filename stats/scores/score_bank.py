"""The test of a score: whether its mean under the emitted law is the one under P."""

import math
from functools import cached_property

import numpy as np
from scipy import optimize, special

from simverify.stats._checks import in_ball, open_unit, tv_ball
from simverify.stats.results import TestResult
from simverify.stats.scores.score_totals import ScoreSums
from simverify.stats.tails.log_tails import log_normal_sf
from simverify.stats.tails.saddlepoint import SumLaw

NORMAL_MARGIN = 0.05
"""Largest relative error of a normal tail, by its next two terms, that is put up with."""

_TILTS = 2.0 ** (np.arange(13) / 2.0)
_MOST_TILT = 500.0
"""Of one token's width, for very few tokens; beyond it an exponential overflows."""

_LEAST_DEVIATION = 1e-60
"""Of the sum, in units of the width; a smaller one has no normal law in floating point."""


def score_test(
    sums: ScoreSums, *, alpha: float, ball: float = 0.0, name: str = "score"
) -> TestResult:
    """Test that a score has its mean under P, two-sided.

    Repeated contexts get the tail of Lugannani and Rice from the exact law of the sum.
    Streamed tokens get a normal tail, widened by ``NORMAL_MARGIN``, as far out as its next two
    terms are below that together; beyond, a bound that holds for every martingale: 1/E for E
    the mean over 13 tilts t of exp(t S - K(t)), K from four moments and the width (Bennett's
    inequality carried two terms further). ``statistic`` is the mean deviation. Indicators are
    better served by :func:`indicator_test`.

    Parameters
    ----------
    sums : ScoreSums
        Of n tokens, n fixed beforehand.
    ball : float
        TV distance eps by which each conditional law may be off: the mean may then be off by
        eps times the mean range, the variance by eps times width times mean range.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1) or ball outside [0, 1).

    References
    ----------
    Bennett, "Probability inequalities for the sum of independent random variables", JASA 57
    (1962) 33-45; Freedman, "On tail probabilities for martingales", Annals of Probability 3
    (1975) 100-118.
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    tail = _Tail(sums, 1.0 if sums.deviation >= 0.0 else -1.0, radius)
    log_p, law = tail.log_sf(abs(sums.deviation))
    return TestResult(
        name=name,
        statistic=sums.deviation / sums.n,
        log_pvalue=min(0.0, math.log(2.0) + log_p),
        alpha=alpha,
        n=sums.n,
        df=None,
        method=in_ball(f"mean score, {law}", radius),
        min_detectable=score_min_detectable(sums, alpha=alpha, ball=radius),
        deviation="shift of the mean score",
    )


class _Tail:
    """One side of the law of a sum of centred scores, ball included."""

    def __init__(self, sums: ScoreSums, sign: float, radius: float) -> None:
        self.drift = radius * sums.ranges
        moved = radius * sums.width * sums.ranges
        self.variance = sums.variance + moved
        self.third = sign * sums.third + moved * sums.width
        self.fourth = sums.fourth + moved * sums.width**2
        self.n, self.width, self.ranges = sums.n, sums.width, sums.ranges
        # Scores are centred with an error of an ulp each.
        self.rounding = 1e-14 * sums.n * sums.width
        # A ball's larger variance shrinks the point at which the exact law is read.
        self.shrink = math.sqrt(sums.variance / self.variance) if self.variance > 0.0 else 1.0
        exact = sums.tables is not None and sums.variance > 0.0
        self.exact = SumLaw.of(sums.tables or (), sign) if exact else None

    def log_sf(self, x: float) -> tuple[float, str]:
        """Log of P(sum >= x), x >= 0, and the law that gives it."""
        x -= self.drift
        # A range without a variance is too small for its square.
        if x <= self.rounding or (self.variance == 0.0 and self.ranges > 0.0):
            return math.log(0.5), "exact"
        if self.variance == 0.0:
            return -math.inf, "exact"
        if self.exact is not None:
            return self.exact.log_sf(x * self.shrink), "Lugannani-Rice from the exact law"
        # A tail falls: where the normal law ends, its last value still bounds what is beyond.
        z, last = x / math.sqrt(self.variance), self._normal_end
        normal = NORMAL_MARGIN + log_normal_sf(min(z, last))
        if z <= last:
            return min(math.log(0.5), normal), "normal law"
        return min(normal, self._log_bound(x)), "martingale bound"

    @cached_property
    def _normal_end(self) -> float:
        """Standard deviations up to which the expansion's next two terms are small enough."""
        deviation = math.sqrt(self.variance) / self.width
        if deviation < _LEAST_DEVIATION:
            return 0.0
        # What each token's squared variance takes off the fourth cumulant is left out; no fourth
        # moment is below the squared variance, which keeps a rounded one from 0.
        cubic = abs(self.third) / self.width**3 / deviation**3 / 6.0
        quartic = max(self.fourth / self.width**4 / deviation**4, 1.0 / self.n) / 24.0
        # A little beyond where the quartic term alone would end it, so that the end lies inside
        # also where there is no cubic one.
        most = 1.01 * (NORMAL_MARGIN / quartic) ** 0.25
        return float(
            optimize.brentq(lambda z: cubic * z**3 + quartic * z**4 - NORMAL_MARGIN, 0.0, most)
        )

    def _log_bound(self, x: float) -> float:
        # The tilts that matter: from the largest variance that n and width allow down to a
        # 4096th of it, for tails near 1e-9. They may depend on n and width alone.
        y = np.minimum(_TILTS * math.sqrt(160.0 / self.n), _MOST_TILT)
        tilts = y / self.width
        rest = np.where(
            y < 0.05,
            1.0 / 24.0 + y / 120.0 + y * y / 600.0,
            (np.expm1(y) - y - y**2 / 2.0 - y**3 / 6.0) / y**4,
        )
        bound = tilts**2 * self.variance / 2.0 + tilts**3 * self.third / 6.0
        bound += tilts**4 * self.fourth * rest
        wealth = float(special.logsumexp(tilts * x - bound)) - math.log(tilts.size)
        # A two-sided p-value doubles it; half of 1 is as much as a tail can be.
        return min(math.log(0.5), -wealth)

    def critical(self, log_tail: float, reach: float) -> float:
        """Smallest x whose log tail is below ``log_tail``, inf if above ``reach``."""
        if self.variance == 0.0:
            return self.drift + self.rounding
        if self.exact is not None:
            return self.exact.critical(log_tail) / self.shrink + self.drift
        if self.log_sf(reach)[0] > log_tail:
            return math.inf
        root: float = optimize.brentq(
            lambda x: self.log_sf(x)[0] - log_tail, self.drift, reach, xtol=1e-300, rtol=1e-6
        )
        return root


def score_min_detectable(
    sums: ScoreSums, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Every possible shift of the mean score of at least this size is found with this power.

    ``sums`` stands for its null moments alone; its ``deviation`` does not matter. inf if no
    shift that is possible is promised. A shift of d is a TV distance of d / width at least.

    Raises
    ------
    ValueError
        If alpha or power is outside (0, 1) or ball outside [0, 1).
    """
    alpha, power, radius = open_unit("alpha", alpha), open_unit("power", power), tv_ball(ball)
    z, width = float(special.ndtri(power)), sums.width
    found = []
    for sign in (1.0, -1.0):
        tail = _Tail(sums, sign, radius)
        off = tail.critical(math.log(alpha / 2.0), sums.ranges)
        if off > sums.ranges or width == 0.0:
            continue
        # A shift y adds no more than y width to the variance.
        root = (z * width + math.sqrt((z * width) ** 2 + 4.0 * (sums.variance + off * width))) / 2
        shift = (root * root - sums.variance) / width
        if shift <= sums.ranges:
            found.append(shift / sums.n)
    return max(found, default=math.inf)
