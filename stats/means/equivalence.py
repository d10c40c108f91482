"""Equivalence of E[tau], and so of block efficiency, with what a rule should reach."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import counts as check_counts
from simverify.stats._checks import open_unit
from simverify.stats.means.betting import betting_interval
from simverify.stats.means.binomial import rate_interval


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """E[tau] lies in [low, high] except with probability ``delta``.

    Attributes
    ----------
    low, high : float
        Interval of E[tau].
    reference : tuple of float
        Proven bounds on what E[tau] should be.
    delta : float
    blocks : int
    method : str
        Both intervals that were intersected.
    """

    low: float
    high: float
    reference: tuple[float, float]
    delta: float
    blocks: int
    method: str

    @property
    def block_efficiency(self) -> tuple[float, float]:
        """Interval of the tokens per target call of a rule without state, E[tau] + 1."""
        return self.low + 1.0, self.high + 1.0

    @property
    def margin(self) -> float:
        """Largest distance between E[tau] and its reference that the interval leaves.

        It is the same for block efficiency. Equivalence within any larger margin is shown,
        except with probability ``delta``.
        """
        lower, upper = self.reference
        return max(self.high - lower, upper - self.low)


def acceptance_equivalence(
    blocks: Any, lower: float, upper: float, *, delta: float = 1e-3
) -> Equivalence:
    """Bound how far E[tau] is from its reference.

    The intersection of two intervals, at delta/2 each: the sum over l = 1..gamma of the
    Clopper-Pearson intervals of Pr(tau >= l), and the betting interval of tau.

    Parameters
    ----------
    blocks : int array (gamma + 1,)
        Blocks with tau = 0..gamma; blocks are independent, of one law.
    lower, upper : float
        Bounds on what E[tau] should be; equal where it is known exactly.

    Raises
    ------
    ValueError
        If there is no block, gamma < 1, counts are negative or not integers, lower and upper
        are not in order within [0, gamma] or delta is outside (0, 1).

    References
    ----------
    .. [1] Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
       case of the binomial", Biometrika 26, 1934.
    .. [2] Schuirmann, "A comparison of the two one-sided tests procedure and the power
       approach for assessing the equivalence of average bioavailability", 1987.
    """
    array, delta = check_counts("blocks", blocks, 1), open_unit("delta", delta)
    gamma = array.size - 1
    if gamma < 1:
        raise ValueError(f"blocks has shape {array.shape}, expected (gamma + 1,), gamma >= 1")
    n = int(array.sum())
    if n == 0:
        raise ValueError("blocks are all 0, expected at least one")
    if not 0.0 <= lower <= upper <= gamma:
        raise ValueError(
            f"bounds of E[tau] are [{lower}, {upper}], expected 0 <= lower <= upper <= {gamma}"
        )
    at_least = np.cumsum(array[::-1])[::-1][1:]
    lows, highs = rate_interval(at_least, n, confidence=1.0 - delta / (2 * gamma))
    low, high = betting_interval(
        array, np.arange(gamma + 1), low=0.0, high=float(gamma), confidence=1.0 - delta / 2
    )
    return Equivalence(
        low=max(low, math.fsum(lows)),
        high=min(high, math.fsum(highs)),
        reference=(float(lower), float(upper)),
        delta=delta,
        blocks=n,
        method="Clopper-Pearson per level of tau, and betting; delta/2 each",
    )
