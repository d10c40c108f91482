"""Bets against the target: e-values of tokens in contexts that never repeat, streamed.

A bet is a ratio r of an alternative's chance of a token to the target's. At a share s the factor
is (1 - s) + s r, whose expectation under the target is 1 at most, given all that came before, so
that products of factors are e-values. Unlike :func:`ratio_sums` no ball has to be known yet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Floats, open_unit, positive_int, tv_ball
from simverify.stats.results import TestResult

RATIO_CAP = 64.0
"""Largest ratio that is bet with: what a ball costs grows with it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BetSums:
    """Bets over ``n`` tokens; sums over later tokens add up.

    ``names``: of the B bets. ``log_wealth``: float64 (B,), the sum of the factors' logs.
    ``widest``: float64 (B,), the largest span there was, a factor's supremum over tokens less its
    infimum.
    """

    names: tuple[str, ...]
    n: int
    log_wealth: Floats
    widest: Floats

    def __add__(self, other: "BetSums") -> "BetSums":
        if self.names != other.names:
            raise ValueError(f"bets {self.names} and {other.names} do not add up")
        return BetSums(
            names=self.names,
            n=self.n + other.n,
            log_wealth=self.log_wealth + other.log_wealth,
            widest=np.maximum(self.widest, other.widest),
        )

    def beside(self, other: "BetSums") -> "BetSums":
        """Return these bets and ``other`` ones on the same tokens."""
        return BetSums(
            names=self.names + other.names,
            n=self.n,
            log_wealth=np.concatenate([self.log_wealth, other.log_wealth]),
            widest=np.concatenate([self.widest, other.widest]),
        )

    def best(self) -> str:
        """Name of the bet that won most: a diagnosis, without an error rate."""
        return self.names[int(self.log_wealth.argmax())]


def bet_sums(name: str, ratios: Any, low: Any, high: Any, *, shares: Sequence[float]) -> BetSums:
    """Bet at each of ``shares``.

    Parameters
    ----------
    name : str
        Of the alternative; the bets are called so, each with its share.
    ratios : float64 array (n,)
        Alternative's chance of each emitted token over that under its row, inf where that is 0;
        its expectation under the row, given all before, is 1 at most.
    low, high : float64 arrays (n,)
        Least and largest such ratio over all tokens of the row.
    shares : sequence of float
        Each above 0, 1 at most.

    Raises
    ------
    ValueError
        If shapes differ, n is 0, a ratio is negative, NaN or not between its limits, or shares
        are none or outside (0, 1].
    """
    r, least, most = (np.asarray(x, dtype=np.float64) for x in (ratios, low, high))
    if r.ndim != 1 or not r.size or not r.shape == least.shape == most.shape:
        raise ValueError(f"ratios has shape {r.shape}, low {least.shape}, high {most.shape}: "
                         "expected (n,), n >= 1")  # fmt: skip
    if not ((least >= 0.0) & (least <= r * (1 + 1e-9)) & (r <= most * (1 + 1e-9))).all():
        raise ValueError("a ratio is negative, NaN or outside its limits: expected none")
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError(f"shares are {tuple(shares)}, expected some above 0 and at most 1")
    r, least, most = (np.minimum(x, RATIO_CAP) for x in (r, least, most))
    with np.errstate(divide="ignore"):
        logs = [float(np.log1p(share * (r - 1.0)).sum()) for share in shares]
    return BetSums(
        names=tuple(f"{name}, share {share:g}" for share in shares),
        n=r.size,
        log_wealth=np.array(logs),
        widest=np.array(shares) * float((most - least).max()),
    )


def bet_test(
    sums: BetSums, *, alpha: float, ball: float = 0.0, name: str = "bets", deviation: str = "bets"
) -> TestResult:
    """Test the target by the mean of the bets' e-values; ``statistic`` is its logarithm.

    No power is promised: what a bet gains is known where its alternative holds alone.

    Parameters
    ----------
    ball : float
        TV distance by which rows may be off, on average over contexts. The expectation of a
        factor rises by a row's own distance times its span at most. The rows that are off may be
        those of the widest span w, so that (1 + ball w)^n divides the e-value, which is the most
        that the product of 1 + distance w comes to at that average.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1) or ball outside [0, 1).

    References
    ----------
    .. [1] Vovk and Wang, "E-values: calibration, combination and applications", Annals of
       Statistics 49 (2021) 1736-1754 (the mean of e-values is one).
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    price = sums.n * np.log1p(radius * sums.widest)
    log_evalue = float(special.logsumexp(sums.log_wealth - price)) - math.log(len(sums.names))
    return TestResult(
        name=name,
        statistic=log_evalue if math.isfinite(log_evalue) else -1e308,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sums.n,
        df=None,
        method=f"e-value, mean over {len(sums.names)} bets",
        min_detectable=math.inf,
        deviation=deviation,
    )


def bet_power(
    n: int, *, mean: float, variance: float, alpha: float, bets: int, price: float = 0.0
) -> float:
    """Return the power of :func:`bet_test` against what one of ``bets`` bets wins by itself.

    By the normal approximation of a sum of ``n`` logarithms of factors, each with this ``mean``
    and ``variance`` under the alternative, less ``price``, log(1 + ball w) of a span w. What other
    bets win comes on top.

    Raises
    ------
    ValueError
        If n or bets is below 1, alpha outside (0, 1), mean not finite, or variance or price
        negative or not finite.
    """
    n, (gain, needed) = positive_int("n", n), _gain(mean, variance, price, alpha, bets)
    if variance == 0.0:
        return float(n * gain > needed)
    return float(special.ndtr((n * gain - needed) / math.sqrt(n * variance)))


def bet_samples(
    *, mean: float, variance: float, alpha: float, bets: int, price: float = 0.0, power: float = 0.9
) -> int | None:
    """Return the least n with so much :func:`bet_power`; None where none has: nothing is won.

    Raises
    ------
    ValueError
        As :func:`bet_power` does, or if power is outside (0, 1).
    """
    gain, needed = _gain(mean, variance, price, alpha, bets)
    z = float(special.ndtri(open_unit("power", power)))
    if gain <= 0.0:
        return None
    # n gain - needed = z sqrt(n variance), solved for the root of n.
    spread = z * math.sqrt(variance)
    root = (spread + math.sqrt(spread**2 + 4.0 * gain * needed)) / (2.0 * gain)
    return math.ceil(root**2)


def _gain(
    mean: float, variance: float, price: float, alpha: float, bets: int
) -> tuple[float, float]:
    """Return what a token wins, and what all have to win: of ``bets`` bets the mean counts."""
    if not math.isfinite(mean):
        raise ValueError(f"mean is {mean}, expected a finite number")
    for name, value in (("variance", variance), ("price", price)):
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is {value}, expected a finite number, 0 or more")
    return mean - price, math.log(positive_int("bets", bets) / open_unit("alpha", alpha))
