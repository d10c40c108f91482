"""Change detection by bets that never end: one alarm rate for all time.

A bet that has run for a million right tokens has lost its stake, and would need as long again to
see a change. So a part of the stake is kept back, and some of it is put down anew before every
token: bets that begin near a change win from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from simverify.stats._checks import Floats, check_open_unit, check_positive_int, check_row_tolerance

FIRST_STAKE = 0.5  # part of the stake that is put down before the first token
_TOKEN_CHUNK = 4096


def log_stakes(first: int, count: int) -> Floats:
    """Logarithms of the stakes put down before tokens ``first``, ``first`` + 1, ... (from 1).

    Half before the first token, of the rest 1 / log2(j + 1) - 1 / log2(j + 2) before token j: about
    ln 2 / (j ln(j)^2), which adds up and falls about as slowly as what does. float64 (count,).
    """
    j = np.arange(first, first + count, dtype=np.float64)
    low, high = np.log2(j + 1.0), np.log2(j + 2.0)
    step = np.log1p(1.0 / (j + 1.0)) / math.log(2.0)  # high - low, to the last digit
    logs = np.log(1.0 - FIRST_STAKE) + np.log(step) - np.log(low) - np.log(high)
    if first == 1 and count:
        logs[0] = np.logaddexp(logs[0], math.log(FIRST_STAKE))
    return np.asarray(logs, dtype=np.float64)


def log_reserve(n: int) -> float:
    """Logarithm of what is kept back after ``n`` tokens."""
    return math.log(1.0 - FIRST_STAKE) - math.log(math.log2(n + 2.0)) if n else 0.0


@dataclass(kw_only=True)
class LastingBets:
    """B bets on the same tokens, each begun anew before every token with a part of its stake.

    With e_i the factor of a bet at token i and w_j its stakes, a bet is worth

        M_n = sum over j up to n of w_j e_j ... e_n, and what is kept back.

    Each e has expectation 1 at most under the target, given all before, so that M does too: it is a
    nonnegative supermartingale that begins at 1, and the mean over the bets is one. It reaches 1 /
    alpha, ever, with probability alpha at most (Ville). ``n``: tokens so far. ``log_wealth``:
    float64 (B,), the logarithm of the bets put down so far; ``highest``: of the largest mean there
    ever was, at token ``highest_at``.

    Source: [1] Ville, "Étude critique de la notion de collectif" (1939); [2] Shin, Ramdas and
    Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New England
    Journal of Statistics in Data Science 2 (2024) 229-260: sums of bets that begin at every time.
    Theirs bound the mean time to a false alarm; with stakes that add up to 1 the probability that
    there ever is one is bounded.
    """

    log_wealth: Floats
    n: int = 0
    highest: float = 0.0
    highest_at: int = 0

    @classmethod
    def begin(cls, bets: int) -> "LastingBets":
        """Return ``bets`` bets before the first token."""
        if bets < 1:
            raise ValueError(f"bets is {bets}: expected 1 or more")
        return cls(log_wealth=np.full(bets, -np.inf))

    def add(self, log_factors: Any) -> Floats:
        """Bet on further tokens; return the logarithm of the mean after each of them, float64 (n,).

        ``log_factors``: float64 (B, n), logarithms of the factors: of each bet at each token, in
        their order. Raises ``ValueError`` if the shape is another, or a logarithm is NaN or
        infinite: a factor of 0 cannot be won back, so that no bet may stake everything.
        """
        logs = np.asarray(log_factors, dtype=np.float64)
        if logs.ndim != 2 or logs.shape[0] != len(self.log_wealth):
            raise ValueError(
                f"log_factors has shape {logs.shape}: expected ({len(self.log_wealth)}, n)"
            )
        if not np.isfinite(logs).all():
            raise ValueError("log_factors holds NaN or infinity: expected factors above 0")
        means = [
            self._block(logs[:, i : i + _TOKEN_CHUNK])
            for i in range(0, logs.shape[1], _TOKEN_CHUNK)
        ]
        return np.concatenate(means) if means else np.zeros(0)

    @property
    def log_evalue(self) -> float:
        """Logarithm of the mean of the bets now."""
        return float(special.logsumexp(np.append(self._mean(self.log_wealth), log_reserve(self.n))))

    def _mean(self, log_wealth: Floats) -> float:
        return float(special.logsumexp(log_wealth)) - math.log(len(log_wealth))

    def _block(self, logs: Floats) -> Floats:
        count = logs.shape[1]
        run = np.cumsum(logs, axis=1)
        before = np.concatenate([np.zeros((len(logs), 1)), run[:, :-1]], axis=1)
        # A stake put down before token j is worth w_j e_j ... e_n: w_j over the product before j,
        # times the product up to n.
        stakes = log_stakes(self.n + 1, count)[None, :] - before
        stakes[:, 0] = np.logaddexp(stakes[:, 0], self.log_wealth)
        wealth = np.logaddexp.accumulate(stakes, axis=1) + run
        rest = np.array([log_reserve(self.n + k + 1) for k in range(count)])
        means = np.logaddexp(special.logsumexp(wealth, axis=0) - math.log(len(logs)), rest)
        self.log_wealth = np.ascontiguousarray(wealth[:, -1])
        top = int(means.argmax())
        if means[top] > self.highest:
            self.highest, self.highest_at = float(means[top]), self.n + top + 1
        self.n += count
        return np.asarray(means, dtype=np.float64)


@dataclass(frozen=True)
class StepBets:
    """Bets that a uniform lies below c with another probability than c.

    ``cuts``, ``shares``: float64 (B,): that it lies below ``cuts`` has the chance ``shares``. The
    factor is the ratio of the two laws, shares / cuts below and (1 - shares) / (1 - cuts) above.
    """

    cuts: Floats
    shares: Floats

    @classmethod
    def grid(cls, cuts: Sequence[float], shifts: Sequence[float]) -> "StepBets":
        """Return a bet for each cut and each shift of its chance, up and down, that is one."""
        each = [
            (c, c + sign * d)
            for c in cuts
            for d in shifts
            for sign in (1.0, -1.0)
            if 0.0 < c + sign * d < 1.0
        ]
        return cls(*(np.array(side) for side in zip(*each, strict=True)))

    def log_factors(self, u: Any) -> Floats:
        """Logarithms of the factors at uniforms u (n,); float64 (B, n)."""
        below = np.asarray(u, dtype=np.float64)[None, :] < self.cuts[:, None]
        low, high = np.log(self.shares / self.cuts), np.log((1 - self.shares) / (1 - self.cuts))
        return np.where(below, low[:, None], high[:, None])

    @property
    def spans(self) -> Floats:
        """By how much the two factors of each bet differ, float64 (B,): what a ball costs."""
        return np.abs(self.shares / self.cuts - (1.0 - self.shares) / (1.0 - self.cuts))


def lasting_delay(
    deviation: float,
    bets: StepBets,
    *,
    alpha: float,
    groups: int = 1,
    after: int = 0,
    ball: float = 0.0,
    power: float = 0.9,
) -> float:
    """Tokens after a change until an alarm, at most, with probability ``power``.

    The change moves ``deviation`` of the mass across a cut of the order, wherever it is: of all
    monotone deviations of that TV those with one step move the mean least. The worst cut is taken.
    The logarithm of the best bet is nearly normal; inf where no bet gains. ``deviation``: TV
    distance. ``groups``: orders in which ``bets`` are made; the change shows in one. ``after``:
    tokens before the change. ``ball``: as of the factors: each is divided by 1 + ball times its
    span. Raises ``ValueError`` if a number is out of its range.
    """
    d, level = check_open_unit("deviation", deviation), check_open_unit("alpha", alpha)
    z = float(stats.norm.ppf(check_open_unit("power", power)))
    after = check_positive_int("after", after, least=0)
    groups, ball = check_positive_int("groups", groups), check_row_tolerance(ball)
    stake = float(log_stakes(after + 1, 1)[0])
    hurdle = -math.log(level) + math.log(groups * len(bets.cuts)) - stake
    price = np.log1p(ball * bets.spans)
    low, high = np.log(bets.shares / bets.cuts), np.log((1 - bets.shares) / (1 - bets.cuts))
    worst = 0.0
    for cut in np.linspace(0.02, 0.98, 49):
        for sign in (1.0, -1.0):
            if not d <= (1.0 - cut if sign > 0 else cut):
                continue
            # Mass d moves evenly from one side of the cut to the other.
            inside = (cut + sign * d) / cut * np.minimum(bets.cuts, cut)
            outside = (1.0 - cut - sign * d) / (1.0 - cut) * np.maximum(bets.cuts - cut, 0.0)
            chance = inside + outside
            gain = chance * low + (1.0 - chance) * high - price
            variance = chance * (1.0 - chance) * (low - high) ** 2
            best = np.inf
            for g, v in zip(gain, variance, strict=True):
                if g > 0.0:
                    root = (z * math.sqrt(v) + math.sqrt(z * z * v + 4.0 * g * hurdle)) / (2.0 * g)
                    best = min(best, root * root)
            worst = max(worst, best)
    return float(worst)
