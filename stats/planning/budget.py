"""How one run's false-alarm rate is split over its tests."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, open_unit, positive_float

BATTERY = {"likelihood ratios": 1 / 2, "scores": 1 / 4, "rest": 1 / 4}
"""Weights of the parts of the battery; each is split again inside."""


def split_alpha(alpha: float, weights: Mapping[str, float]) -> dict[str, float]:
    """Split ``alpha`` in proportion to ``weights`` (weighted Bonferroni).

    Returns one share per name, in the order of ``weights``; their exact sum never exceeds
    ``alpha``.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1), no weights are given or one is not positive and finite.
    """
    alpha = open_unit("alpha", alpha)
    if not weights:
        raise ValueError("weights are empty, expected one per test")
    checked = {name: positive_float(f"weight of {name!r}", w) for name, w in weights.items()}
    total = math.fsum(checked.values())
    shares = {name: alpha * (weight / total) for name, weight in checked.items()}
    # Rounding may push the sum an ulp above alpha; the largest share pays.
    largest = max(shares, key=shares.__getitem__)
    while math.fsum(shares.values()) > alpha:
        shares[largest] = math.nextafter(shares[largest], 0.0)
    return shares


def adjusted_pvalues(log_pvalues: Any) -> Floats:
    """Adjust p-values for their number, by Holm's method: which of many tests point somewhere.

    They say where a deviation is, once a test at its share of alpha has said that there is one;
    they never say whether.

    Parameters
    ----------
    log_pvalues : float64 array (tests,)
        Natural logarithms of the p-values, 0 at most; -inf for what the null excludes.

    Returns
    -------
    float64 array (tests,)

    Raises
    ------
    ValueError
        If there is no p-value, or one is NaN or above 1.

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979) 65-70.
    """
    # A third of a second, which no run without a finding has to wait for.
    from statsmodels.stats.multitest import multipletests

    logs = np.asarray(log_pvalues, dtype=np.float64)
    if logs.ndim != 1 or logs.size == 0 or not (logs <= 0.0).all():
        raise ValueError(f"log_pvalues has shape {logs.shape} or a number that is NaN or above 0, "
                         "expected (tests,), one or more logarithms of p-values")  # fmt: skip
    adjusted: Floats = multipletests(np.exp(logs), method="holm")[1]
    return adjusted
