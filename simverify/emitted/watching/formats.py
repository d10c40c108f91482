"""Bets of a watch that the server's weights were rounded to few bits: some requests, for its life.

What rounded weights do to a row goes up in one context and down in the next, which no order of the
tokens shows. So one request in so many is scored with each format as well, and its tokens are bet
on by the ratios of the two laws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.judging.weights import ratios_of
from simverify.emitted.rescoring import Scored, with_rounded_weights
from simverify.models.real.roundings import ROUNDINGS
from simverify.models.real.transformer import TransformerPair

SHARES = (0.3, 0.9)
"""How strongly the laws of rounded weights are mixed with the target's own."""

MOST = 8.0
"""Ratios above it count as this much: so that what rows may be off by has a bounded price."""


def _ratios(one: Scored, logits: NDArray[np.float32], pair: TransformerPair) -> Floats:
    """Return how much likelier the tokens are by a format, float64 (n,); 1 where nothing is said.

    That is where weights so rounded overflow, and of a token that the target's law cuts off.
    """
    if not np.isfinite(logits).all():
        return np.ones(len(one.request.tokens))
    seen = ratios_of(one, logits, pair)[0]
    return np.where(np.isfinite(seen), seen, 1.0)


def log_factors(ratios: Floats) -> Floats:
    """Return logarithms of the factors of a format's bets, float64 (2, n), by its ratios (n,)."""
    won = np.minimum(ratios, MOST) - 1.0
    return np.stack([np.log1p(share * won) for share in SHARES])


class FormatBets:
    """Bets on one request of each ``every``, for the life of a watch."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.bets = tuple((name, share) for name in ROUNDINGS for share in SHARES)
        self.lasting = stats.LastingBets.begin(len(self.bets))

    def wanted(self, number: int) -> bool:
        """Whether the request of this number is bet on: known before it is read."""
        return number % self.every == 0

    def factors(self, chosen: Sequence[Scored], pair: TransformerPair) -> list[Floats]:
        """Return logarithms of the factors of requests, float64 (B, n) each.

        They are scored together: to round the weights takes longer than to compute with them.
        """
        found: list[list[Floats]] = [[] for _ in chosen]
        requests = [one.request for one in chosen]
        for name, rounding in ROUNDINGS.items():
            logits = with_rounded_weights(pair, requests, {name: rounding})[name]
            for own, one, x in zip(found, chosen, logits, strict=True):
                own.append(log_factors(_ratios(one, x, pair)))
        return [np.concatenate(own) for own in found]

    def add(self, log_factors: Floats, ball: float) -> Floats:
        """Bet, rows being off by TV ``ball`` on average; return the log mean after each token."""
        price = np.log1p(ball * MOST * np.array([share for _, share in self.bets]))
        return self.lasting.add(log_factors - price[:, None])

    def leading(self) -> str:
        """Return the format that is worth most: a diagnosis, without an error rate."""
        return self.bets[int(self.lasting.log_wealth.argmax())][0]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it; -inf as null."""
        wealth = [float(x) if math.isfinite(x) else None for x in self.lasting.log_wealth]
        return {
            "formats": [name for name, _ in self.bets], "log_wealth": wealth,
            "tokens": self.lasting.n,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], every: int, most: int) -> "FormatBets":
        """Return what :meth:`as_dict` gave, of ``most`` tokens at most.

        Raises ``KeyError`` or ``ValueError`` if it is none.
        """
        found = cls(every)
        if value["formats"] != [name for name, _ in found.bets]:
            raise ValueError("bets on other formats than this version's")
        wealth = np.array([-np.inf if x is None else float(x) for x in value["log_wealth"]])
        if wealth.shape != found.lasting.log_wealth.shape or np.isnan(wealth).any():
            raise ValueError(f"{len(wealth)} bets on formats")
        if type(value["tokens"]) is not int or not 0 <= value["tokens"] <= most:
            raise ValueError(f"{value['tokens']} tokens")
        found.lasting = stats.LastingBets(log_wealth=wealth, n=value["tokens"])
        return found
