"""Kolmogorov-Smirnov on a streamed histogram of randomised PITs.

Under the null the PITs of emitted tokens are independent uniforms, whatever the vocabulary
and the contexts. A histogram of fixed bins is all that is kept of them, so shards just add.
"""

import math
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Ints, in_ball, open_unit, positive_float, positive_int, tv_ball
from simverify.stats._checks import counts as check_counts
from simverify.stats.results import TestResult
from simverify.stats.tails.log_tails import KSTWO_EXACT_MAX, log_kstwo_sf

PIT_BINS = 2**16
"""Equal bins over [0, 1) that the simulators fill."""


def edge_distance(histogram: Any) -> tuple[float, int]:
    """Kolmogorov-Smirnov distance from the uniform law at the bin edges, and the sample size.

    The distance of the sample itself is at least this and at most one bin's width more.

    Raises
    ------
    ValueError
        If ``histogram`` is not (bins,) non-negative integers with 2 or more bins, or empty.
    """
    bins, n = _histogram_iv(histogram)
    edges = np.arange(1, bins.size) / bins.size
    return float(np.abs(np.cumsum(bins)[:-1] / n - edges).max()), n


def _histogram_iv(histogram: Any) -> tuple[Ints, int]:
    bins = check_counts("histogram", histogram, 1)
    if bins.size < 2:
        raise ValueError(f"histogram has {bins.size} bins, expected 2 or more ({PIT_BINS})")
    n = int(bins.sum())
    if n == 0:
        raise ValueError("histogram is empty, expected at least one token")
    return bins, n


def pit_ks(histogram: Any, *, alpha: float, ball: float = 0.0, name: str = "PIT") -> TestResult:
    """Test that randomised PITs are uniform, by Kolmogorov-Smirnov at the bin edges.

    The statistic looks at the bin edges alone, so it never exceeds the sample's own D, whose
    exact tail it is compared with: the true size is at most alpha. What that costs in power,
    one bin's width, is added to ``min_detectable``: the sup-norm distance D of the PITs' law
    from uniform. It equals the mean one-token TV distance if P'/P is monotone, in the same
    direction in every context, in the order of tokens that the PITs use (P' the emitted law,
    P the target's); for other deviations D is smaller than the TV distance.

    Parameters
    ----------
    histogram : int array (bins,)
        Counts of the PITs over equal bins of [0, 1); the tokens are the first n emitted, n
        fixed beforehand. Any order of the vocabulary will do (``pit_orders``).
    ball : float
        TV distance by which each conditional law may be off: D may then be so much larger.

    Raises
    ------
    ValueError
        If ``histogram`` is not (bins,) non-negative integers with 2 or more bins, it is
        empty, alpha is outside (0, 1) or ball outside [0, 1).
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    distance, n = edge_distance(histogram)
    bins = int(np.asarray(histogram).size)
    law = "exact law" if n <= KSTWO_EXACT_MAX else "limit law"
    return TestResult(
        name=name,
        statistic=distance,
        log_pvalue=log_kstwo_sf(max(distance - radius, 0.0), n),
        alpha=alpha,
        n=n,
        df=None,
        method=in_ball(f"Kolmogorov-Smirnov at {bins} bin edges, {law}", radius),
        min_detectable=ks_min_detectable(n, alpha=alpha, bins=bins, ball=radius),
        deviation="sup distance of the PITs from uniform",
    )


def ks_min_detectable(
    n: int, *, alpha: float, power: float = 0.9, bins: int = PIT_BINS, ball: float = 0.0
) -> float:
    """Smallest D of the PITs' law from uniform found with this power, inf if there is none.

    At alpha 1e-6 and power .9 it is 3.33 / sqrt(n) and one bin: Massart's critical value,
    which the exact one never exceeds, and the normal law of the empirical CDF where the
    distance is largest, with its largest standard deviation.

    Raises
    ------
    ValueError
        If n < 1, bins < 2, alpha or power is outside (0, 1) or ball outside [0, 1).
    """
    n, bins = positive_int("n", n), positive_int("bins", bins, 2)
    distance = _ks_constant(alpha, power) / math.sqrt(n) + 1.0 / bins + tv_ball(ball)
    return distance if distance <= 1.0 else math.inf


def ks_samples(
    distance: float, *, alpha: float, power: float = 0.9, bins: int = PIT_BINS, ball: float = 0.0
) -> int:
    """Tokens that find a D of the PITs' law from uniform of ``distance``.

    Raises
    ------
    ValueError
        If ``distance`` is not above one bin's width and the ball, bins < 2, alpha or power is
        outside (0, 1) or ball outside [0, 1).
    """
    distance, bins = positive_float("distance", distance), positive_int("bins", bins, 2)
    unseen = 1.0 / bins + tv_ball(ball)
    if distance <= unseen:
        what = "one bin and the ball" if ball else "one bin"
        raise ValueError(f"distance is {distance}, expected more than {what}, {unseen:.3g}")
    return math.ceil((_ks_constant(alpha, power) / (distance - unseen)) ** 2)


def _ks_constant(alpha: float, power: float) -> float:
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    return math.sqrt(math.log(2.0 / alpha) / 2.0) + float(special.ndtri(power)) / 2.0
