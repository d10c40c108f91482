"""How a run of fixed size is looked at before its end: few looks, fixed beforehand.

Every look spends its own share of alpha, so a run may fail at any of them; it passes at the
last alone, whose share is the largest.
"""

import math
from dataclasses import dataclass

from simverify.stats._checks import open_unit, positive_int

LOOKS = ((1 / 8, 1 / 8), (1 / 4, 1 / 8), (1 / 2, 1 / 4), (1.0, 1 / 2))
"""(fraction of the samples, share of alpha) of each look; both are exact in binary."""


@dataclass(frozen=True)
class Look:
    """Test the first ``samples`` of a run at level ``alpha``."""

    samples: int
    alpha: float


def plan_looks(samples: int, *, alpha: float) -> tuple[Look, ...]:
    """Return the looks of a run of ``samples``, in order; the last one is at its end.

    By Bonferroni the looks together err with probability ``alpha`` at most, whatever their
    dependence. Runs too short for four different looks have fewer, and leave alpha unspent.

    Raises
    ------
    ValueError
        If samples < 1 or alpha is outside (0, 1).
    """
    samples, alpha = positive_int("samples", samples), open_unit("alpha", alpha)
    looks: dict[int, Look] = {}
    for fraction, share in LOOKS:
        n = math.ceil(fraction * samples)
        # Of two looks at the same number the later one has the larger share, and replaces.
        looks[n] = Look(n, share * alpha)
    return tuple(looks.values())
