"""The mean of a bounded variable by betting: e-processes and intervals, valid at any time.

A gambler who thinks the mean is above m stakes a fraction f of his wealth on every
observation: the factor is 1 - f + f x/m, of expectation 1 at most if the mean is m or less.
Many fixed fractions at once do nearly as well as the best of them, and need nothing of a
sample but how often each value came.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from simverify.stats._checks import Floats, Ints, open_unit, positive_float, positive_int
from simverify.stats._checks import counts as check_counts
from simverify.stats.planning.eprocess import eprocess_growth
from simverify.stats.results import TestResult

_FRACTIONS = 2.0 ** -np.arange(1.0, 25.0)
# A bet c times the best one grows 2 c - c^2 times as fast; one of these has c in [2/3, 4/3].
_EFFICIENCY = 8.0 / 9.0


def betting_interval(
    counts: Any, values: Any, *, low: float, high: float, confidence: float
) -> tuple[float, float]:
    """Two-sided interval of a mean; it holds at every sample size at once.

    The means that neither bet has refuted at (1 - confidence)/2. For E[tau], ``values`` are
    0..gamma.

    Parameters
    ----------
    counts : int array (k,)
        How often each value came; observations are independent of one law.
    values : float64 array (k,)
        The values, within [low, high].
    low, high : float
        Range that every observation must lie in; the interval is clipped to it.

    Raises
    ------
    ValueError
        If there is no observation, counts are negative or not integers, shapes differ, the
        range is empty, a value lies outside it or confidence is outside (0, 1).

    References
    ----------
    .. [1] Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
       J. R. Stat. Soc. B 86, 2024.
    .. [2] Cover, "Universal portfolios", Math. Finance 1, 1991 (mixtures of fixed fractions).
    """
    bets = _betting_iv(counts, values, low, high)
    hurdle = math.log(2.0 / (1.0 - open_unit("confidence", confidence)))
    return (
        low + (high - low) * _lowest(bets, hurdle),
        high - (high - low) * _lowest(bets.mirrored(), hurdle),
    )


def betting_test(
    counts: Any,
    values: Any,
    lower: float,
    upper: float,
    *,
    low: float,
    high: float,
    alpha: float,
    name: str = "mean",
) -> TestResult:
    """Test that a mean lies in [lower, upper]; the test may be asked at any time.

    The e-value is the mean of those of the two bets, above ``upper`` and below ``lower``.
    ``statistic`` is the observed mean; ``min_detectable`` a shift of the mean out of its
    bounds, for a law of the observed variance.

    Raises
    ------
    ValueError
        As :func:`betting_interval`, and if lower and upper are not in order within the range
        or alpha is outside (0, 1).
    """
    bets, alpha = _betting_iv(counts, values, low, high), open_unit("alpha", alpha)
    if not low <= lower <= upper <= high:
        raise ValueError(f"bounds are [{lower}, {upper}], expected low <= lower <= upper <= high")
    span = high - low
    above = bets.log_wealth((upper - low) / span)
    below = bets.mirrored().log_wealth((high - lower) / span)
    log_evalue = float(np.logaddexp(above, below)) - math.log(2.0)
    variance = span * span * bets.variance
    shift = betting_min_detectable(bets.n, variance, span=span, alpha=alpha)
    return TestResult(
        name=name,
        statistic=low + span * bets.mean,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=bets.n,
        df=None,
        method="e-value, fixed bets on a bounded mean",
        min_detectable=shift,
        deviation="shift of the mean",
    )


def betting_min_detectable(
    n: int, variance: float, *, span: float, alpha: float, power: float = 0.9
) -> float:
    """Smallest shift of a mean found within ``n`` observations, inf if it exceeds ``span``.

    To second order in the shift D, the best bet grows by D^2 / (2 (variance + D^2)) per
    observation, or D / (4 span) where it would stake more than half the wealth.

    Raises
    ------
    ValueError
        If n < 1, variance is negative or not finite, span is not positive, or alpha or power
        is outside (0, 1).
    """
    n, span = positive_int("n", n), positive_float("span", span)
    variance, need = _variance_iv(variance), 2.0 * _growth(alpha, power) / n
    if need >= 0.5:
        return math.inf
    shift = max(math.sqrt(need * variance / (1.0 - need)), 2.0 * need * span)
    return shift if shift <= span else math.inf


def betting_samples(
    shift: float, variance: float, *, span: float, alpha: float, power: float = 0.9
) -> int:
    """Observations that find this shift of a mean.

    Raises
    ------
    ValueError
        If shift is not above 0 and up to span, variance is negative or not finite, or alpha
        or power is outside (0, 1).
    """
    shift, span = positive_float("shift", shift), positive_float("span", span)
    if shift > span:
        raise ValueError(f"shift is {shift}, expected at most the range's width {span}")
    found = min(shift**2 / (_variance_iv(variance) + shift**2), shift / (2.0 * span))
    return math.ceil(2.0 * _growth(alpha, power) / found)


def _growth(alpha: float, power: float) -> float:
    weight = 1.0 / (2 * _FRACTIONS.size)
    return eprocess_growth(alpha, weight=weight, power=power) / _EFFICIENCY


@dataclass(frozen=True, eq=False)
class _Bets:
    """Observations ``x`` in [0, 1] (k,), each seen ``counts`` (k,) times."""

    counts: Ints
    x: Floats

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return float(self.counts @ self.x) / self.n

    @property
    def variance(self) -> float:
        return float(self.counts @ (self.x - self.mean) ** 2) / self.n

    def mirrored(self) -> "_Bets":
        return _Bets(self.counts, 1.0 - self.x)

    def log_wealth(self, mean: float) -> float:
        """Log of the mean wealth of all who bet that the mean is above ``mean``."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is not chosen
            gains = np.where(self.x > 0.0, self.x / mean, 0.0)
        factors = np.log1p(_FRACTIONS[:, None] * (gains - 1.0))
        return float(special.logsumexp(factors @ self.counts)) - math.log(_FRACTIONS.size)


def _lowest(bets: _Bets, hurdle: float) -> float:
    """Find the least mean that the bets leave, in [0, 1]; wealth falls as the mean rises."""
    kept = bets.mean
    if kept == 0.0:
        return 0.0
    refuted = kept / 2.0
    while bets.log_wealth(refuted) < hurdle:
        kept, refuted = refuted, refuted / 2.0
    edge = optimize.brentq(lambda m: bets.log_wealth(m) - hurdle, refuted, kept, rtol=1e-12)
    # The root's own error must not cut the interval.
    return float(edge) * (1.0 - 1e-11)


def _variance_iv(variance: float) -> float:
    if not 0.0 <= variance < math.inf:
        raise ValueError(f"variance is {variance}, expected a finite number, 0 or more")
    return float(variance)


def _betting_iv(counts: Any, values: Any, low: float, high: float) -> _Bets:
    array = check_counts("counts", counts, 1)
    points = np.asarray(values, dtype=np.float64)
    if points.shape != array.shape:
        raise ValueError(f"values has shape {points.shape}, expected {array.shape} as counts")
    if not array.any():
        raise ValueError("counts are all 0, expected at least one observation")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the range is [{low}, {high}], expected finite low < high")
    if not ((points >= low) & (points <= high)).all():
        raise ValueError(f"values are {points.tolist()}, expected them within [{low}, {high}]")
    seen = array > 0
    return _Bets(array[seen], (points[seen] - low) / (high - low))
