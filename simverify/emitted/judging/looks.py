"""Bets on tokens as they come, which may be looked at, and end a run, at any time.

Under the target a randomised PIT is uniform given all that came before, so that a density of it is
a fair bet. With the bets on rates and on rounded weights their mean is an e-process: that it ever
reaches 1 / alpha has a chance of alpha at most, however often one looks (Ville's inequality).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from simverify import stats
from simverify.arrays import Floats

NAME = "looks, bets on tokens as they come"

_TAILS = (0.97, 0.9, 0.75, 0.5, 0.25, 0.1, 0.03)
"""Shares of the tokens, the first and the last in an order, that may come more often; large ones
win where the rest comes too rarely."""

_SHARES = (0.7, 0.25, 0.08)
_WEIGHTS = {"pits": 0.5, "rates": 0.25, "weights": 0.25}


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All bets after some ``tokens``; None where there are none yet."""

    tokens: int
    pits: stats.BetSums | None
    rates: stats.BetSums | None
    weights: stats.BetSums | None


def pit_bets(pits: Mapping[str, Floats]) -> stats.BetSums:
    """Bet on randomised PITs, float64 (n,) by the name of their order."""
    found: stats.BetSums | None = None
    for order, u in pits.items():
        none, least = np.zeros(len(u)), np.zeros(len(u))
        for tail in _TAILS:
            for side, inside in (("first", u < tail), ("last", u > 1.0 - tail)):
                ratios = np.where(inside, 1.0 / tail, none)
                bets = stats.bet_sums(
                    f"{side} {tail:g} in {order} order", ratios, least,
                    np.full(len(u), 1.0 / tail), shares=_SHARES,
                )  # fmt: skip
                found = bets if found is None else found.beside(bets)
    assert found is not None
    return found


def log_evalue(seen: Snapshot, ball: float) -> float:
    """Return the log of the e-process, rows being off by TV ``ball`` on average."""
    parts = []
    for name, weight in _WEIGHTS.items():
        sums: stats.BetSums | None = getattr(seen, name)
        own = 0.0
        if sums is not None:
            price = sums.n * np.log1p(ball * sums.widest)
            own = float(special.logsumexp(sums.log_wealth - price)) - math.log(len(sums.names))
        parts.append(math.log(weight) + own)
    return float(special.logsumexp(parts))


def looks_test(seen: Sequence[Snapshot], *, alpha: float, ball: float) -> stats.TestResult:
    """Test the target by the largest value that the e-process ever had, seen request by request."""
    path = [log_evalue(own, ball) for own in seen]
    largest = max(path)
    return stats.TestResult(
        name=NAME,
        statistic=largest,
        log_pvalue=min(0.0, -largest),
        alpha=alpha,
        n=seen[-1].tokens,
        df=None,
        method=f"e-process, its largest value at {len(path)} looks",
        min_detectable=math.inf,
        deviation="any that a bet is on",
    )


def crossing(seen: Sequence[Snapshot], *, alpha: float, ball: float) -> int | None:
    """Return after how many tokens the e-process says FAIL; None if it never does."""
    needed = math.log(1.0 / alpha)
    return next((own.tokens for own in seen if log_evalue(own, ball) > needed), None)
