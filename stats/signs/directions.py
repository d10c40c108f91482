"""Differences within pairs, summed along directions that were fixed without their signs."""

import math
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Floats, open_unit, positive_int
from simverify.stats.results import TestResult

SIZES = (3.0, 4.5, 6.0, 8.0, 11.0, 15.0, 21.0, 30.0)
"""Standardised sums that are bet on."""

_LN2 = math.log(2.0)


def direction_evalues(differences: Any) -> Floats:
    """Return the log of each direction's e-value, float64 (F,).

    Under the null the sign of each row is fair given all absolute values, so that a factor
    exp(l d) / cosh(l d) has expectation 1. The bets l are set by the sum of squares, which knows
    no sign, and both sides are bet on.

    Parameters
    ----------
    differences : float64 array (n, F)
        What the first of a pair has more than the second, for each of n pairs; finite.

    Raises
    ------
    ValueError
        If there is no direction, or an entry is not finite.
    """
    d = _finite("differences", differences)
    largest = np.abs(d).max(axis=0)
    d = d / np.where(largest > 0.0, largest, 1.0)
    squares = (d * d).sum(axis=0)
    scale = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0))
    logs = []
    for size in SIZES:
        bet = size * scale
        price = _log_cosh(d * bet).sum(axis=0)
        total = d.sum(axis=0) * bet
        logs += [total - price, -total - price]
    found: Floats = special.logsumexp(np.stack(logs), axis=0) - math.log(len(logs))
    return found


def directions_test(
    differences: Any, *, alpha: float, name: str, per_pair: float = 1.0, deviation: str = "shift"
) -> TestResult:
    """Test that pairs may be swapped by the mean of the directions' e-values.

    ``statistic`` is its logarithm. ``min_detectable`` is the shift of the mean difference, over
    ``per_pair``, that is found with power .9 along the direction that varies most.

    Parameters
    ----------
    differences : float64 array (n, F)
        As :func:`direction_evalues` takes them.
    per_pair : float
        What a difference is counted in, such as the units of an answer.

    Raises
    ------
    ValueError
        If there is no direction, an entry is not finite, alpha is outside (0, 1) or per_pair is
        not above 0.

    References
    ----------
    .. [1] de la Pena, "A general class of exponential inequalities for martingales and ratios",
       Annals of Probability 27 (1999) 537-564 (symmetric differences, normalised by their squares).
    .. [2] Vovk and Wang, "E-values: calibration, combination and applications", Annals of
       Statistics 49 (2021) 1736-1754 (the mean of e-values is one).
    """
    alpha, d = open_unit("alpha", alpha), _finite("differences", differences)
    if not per_pair > 0.0:
        raise ValueError(f"per_pair is {per_pair}, expected above 0")
    logs = direction_evalues(d)
    log_evalue = float(special.logsumexp(logs)) - math.log(logs.size)
    largest = float(np.abs(d).max())
    spread = float((d * d).sum(axis=0).max()) if largest < 1e100 else math.inf
    found = (
        needed_shift(alpha, logs.size, spread) / (len(d) * per_pair)
        if spread < math.inf else math.inf
    )  # fmt: skip
    return TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=len(d),
        df=None,
        method=f"e-value of swaps, mean over {logs.size} directions",
        min_detectable=found if found < 1.0 else math.inf,
        deviation=deviation,
    )


def needed_shift(alpha: float, directions: int, spread: float) -> float:
    """Return the sum of differences that is found with power .9.

    Parameters
    ----------
    directions : int
        Of which one is off.
    spread : float
        Sum of its squared differences without a shift, 0 or more.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1), directions below 1 or spread negative.
    """
    alpha, directions = open_unit("alpha", alpha), positive_int("directions", directions)
    if not 0.0 <= spread < math.inf:
        raise ValueError(f"spread is {spread}, expected 0 or more, and finite")
    price = math.log(1.0 / alpha) + math.log(2 * len(SIZES) * directions)
    # With few differences a swap each is all there is: log 2 is won by one that tells.
    fewest = price / _LN2 + 1.2816 * math.sqrt(price / _LN2)
    return max((math.sqrt(2.0 * price) + 1.2816) * math.sqrt(spread), fewest)


def _log_cosh(x: Floats) -> Floats:
    size = np.abs(x)
    found: Floats = size + np.log1p(np.exp(-2.0 * size)) - _LN2
    return found


def _finite(name: str, values: Any) -> Floats:
    d = np.asarray(values, dtype=np.float64)
    if d.ndim != 2 or not d.size:
        raise ValueError(f"{name} has shape {d.shape}: expected (n, F), n and F 1 or more")
    if not np.isfinite(d).all():
        raise ValueError(f"{name} holds NaN or infinity: expected finite numbers")
    return d
