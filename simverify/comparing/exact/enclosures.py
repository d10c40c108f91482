"""Enclosures of Pr(tau >= l) and of E[tau] that rounding cannot make false."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from simverify.arrays import Floats
from simverify.simulators.exact.calls import shortened

_ULP = 2.0**-53

_ROW_ROUNDINGS = 64
"""Per factor of a product of row entries: numpy adds a row up in pairs, which rounds some 30
times for up to a million tokens, then divides; a row of p and one of q meet in a minimum."""

_LEVEL_ROUNDINGS = 4
"""Per level: the products of a rule's closed form."""

_SUM_ROUNDINGS = 40
"""Once: the sum of up to 20,000 leaves, in pairs."""


def enclosed_fractions(values: Sequence[Any]) -> tuple[Floats, Floats]:
    """Round each fraction down and up to float64: two arrays, equal where it is a float."""
    down, up = [], []
    for value in values:
        nearest = float(value)
        down.append(nearest if nearest <= value else math.nextafter(nearest, -math.inf))
        up.append(nearest if nearest >= value else math.nextafter(nearest, math.inf))
    return np.array(down), np.array(up)


def enclosed_floats(
    values: Sequence[Any], *, certain: int, additions: int = 0
) -> tuple[Floats, Floats]:
    """Widen the levels of a float64 curve by what its sums may have lost, within [0, 1].

    All terms are positive, so relative errors only add up. Level l takes ``_ROW_ROUNDINGS +
    _LEVEL_ROUNDINGS + additions`` roundings for each of its l steps and ``_SUM_ROUNDINGS``
    once: 7e-14 in all at l = 8 with ``additions`` = 0, the sums taken in sequence in a step.
    The first ``certain`` levels lose nothing: they are 1 whatever they round to.
    """
    curve = np.array(values, dtype=np.float64)
    steps = np.arange(1, curve.size + 1)
    slack = (steps * (_ROW_ROUNDINGS + _LEVEL_ROUNDINGS + additions) + _SUM_ROUNDINGS) * _ULP
    upper = np.minimum(curve * (1 + slack), 1.0)
    lower = np.minimum(curve * (1 - slack), upper)
    lower[:certain] = upper[:certain] = 1.0
    return lower, upper


def enclosed_sum(
    lower: Floats, upper: Floats, total: Fraction | None = None
) -> tuple[float, float]:
    """Bounds on E[tau], the sum of the levels, which never exceeds their number."""
    if total is not None:
        down, up = enclosed_fractions([total])
        return float(down[0]), float(up[0])
    # fsum rounds once.
    down_to = math.nextafter(math.fsum(lower), 0.0) if (lower < 1).any() else float(lower.size)
    up_to = math.nextafter(math.fsum(upper), math.inf)
    return down_to, min(up_to, float(upper.size))


def printable(total: Any) -> Fraction | None:
    """Return ``total`` where it is a fraction short enough to print."""
    total = shortened(total)
    return total if isinstance(total, Fraction) else None
