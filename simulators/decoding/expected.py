"""What a drafted block is worth to each rule, before any coin is thrown: Rao-Blackwell."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.arrays import Floats
from simverify.simulators.decoding.lanes import Block
from simverify.verifiers.base import LARGEST

RULES = ("token", "block", "greedy", "match")
"""First axis of :func:`curves`; greedy's is its first call's, the ideal coupling."""


def curves(block: Block) -> Floats:
    """Probabilities that a block keeps l tokens or more, float64 (4, gamma), l = 1..gamma.

    Each is Pr(tau >= l) given the first l - 1 drafts, by the rows alone: its mean over blocks
    drafted at the same prefix is the rule's own Pr(tau >= l) there. With w what the rule has
    kept of the drafts before, the sum over x of min(w p(x), q(x)) for block and greedy, of
    w min(p(x), q(x)) for token and w p(x) q(x) for match.

    References
    ----------
    Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, algorithm 2
    and theorems 1 to 3.
    """
    found = np.empty((len(RULES), len(block.drafts)))
    token = whole = free = match = 1.0
    for i, x in enumerate(block.drafts):
        p, q = block.p[i], block.q[i]
        found[:, i] = (
            token * np.minimum(p, q).sum(),
            np.minimum(whole * p, q).sum(),
            np.minimum(free * p, q).sum(),
            # Not `p @ q`: the threads of numpy's BLAS wait for each other longer than a sum takes.
            match * np.einsum("i,i", p, q),
        )
        ratio = p[x] / q[x]
        token *= min(ratio, 1.0)
        whole = min(whole * ratio, 1.0)
        free = min(free * ratio, LARGEST)
        match *= p[x]
    return found


def law_of_tau(block: Block, rule: str) -> Floats:
    """Probability of tau = 0..gamma given the rows and the drafts, float64 (gamma+1,).

    For a first call of ``rule``, one of :data:`RULES`: the coins alone are left to chance.
    """
    if rule in ("token", "match"):
        kept = [1.0]
        for i, token in enumerate(block.drafts):
            p, q = block.p[i][token], block.q[i][token]
            kept.append(kept[-1] * (p if rule == "match" else min(p / q, 1.0)))
        return -np.diff([*kept, 0.0])
    thresholds, weight = [], 1.0
    for i, token in enumerate(block.drafts):
        weight = weight * block.p[i][token] / block.q[i][token]
        weight = min(weight, 1.0 if rule == "block" else LARGEST)
        if i + 1 == len(block.drafts):
            thresholds.append(min(weight, 1.0))
            continue
        gain = weight * block.p[i + 1] - block.q[i + 1]
        residual = float(np.maximum(gain, 0.0).sum())
        room = residual + 1.0 - weight if rule == "block" else float(np.maximum(-gain, 0.0).sum())
        thresholds.append(min(residual / room, 1.0) if room > 0.0 else 1.0)
    # The scan never stops early: tau is the last threshold that its coin stays below.
    h = np.array([1.0, *thresholds])
    missed = np.append(np.cumprod(1.0 - h[::-1])[::-1][1:], 1.0)
    law: Floats = h * missed
    return law


@dataclass(frozen=True)
class Interval:
    """A mean over lanes and its two-sided interval, by Student's t over lanes."""

    mean: float
    low: float
    high: float


class LaneMeans:
    """Means per block of some quantities, and intervals from the spread between lanes.

    Lanes are independent given their prompts; the blocks of one are not. So the interval is
    of sums over blocks divided by blocks, with the delta method, at t quantiles of one degree
    of freedom less than lanes: approximate, the better the more lanes.
    """

    def __init__(self, lanes: int, quantities: int) -> None:
        self.sums = np.zeros((lanes, quantities))
        self.counts = np.zeros(lanes)

    @classmethod
    def of(cls, sums: Floats, counts: Floats) -> "LaneMeans":
        """Return the means of sums (lanes, quantities) over ``counts`` (lanes,) blocks."""
        found = cls(*sums.shape)
        found.sums, found.counts = sums, counts
        return found

    def add(self, lane: int, values: npt.ArrayLike) -> None:
        """Count one block."""
        self.sums[lane] += values
        self.counts[lane] += 1

    @property
    def blocks(self) -> int:
        """Blocks counted."""
        return int(self.counts.sum())

    @property
    def means(self) -> Floats:
        """Mean of each quantity over all blocks, float64 (quantities,)."""
        means: Floats = self.sums.sum(axis=0) / self.counts.sum()
        return means

    def interval(self, weights: npt.ArrayLike, confidence: float) -> Interval:
        """Interval of a weighted sum of the quantities' means, such as a difference."""
        sums = self.sums @ np.asarray(weights, dtype=np.float64)
        mean = float(sums.sum() / self.counts.sum())
        lanes = len(sums)
        off = (sums - mean * self.counts) / self.counts.mean()
        spread = float(np.sqrt((off**2).sum() / (lanes * (lanes - 1))))
        half = float(special.stdtrit(lanes - 1, (1.0 + confidence) / 2.0)) * spread
        return Interval(mean, mean - half, mean + half)
