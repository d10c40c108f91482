"""How one run's false-alarm rate is split over its tests."""

import math
from collections.abc import Mapping

from simverify.stats._checks import open_unit, positive_float

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
