"""Whether the engine's weights were rounded: bets on the laws of rounded weights."""

import numpy as np

from simverify import stats
from simverify.emitted.rescoring import Scored
from simverify.models.real.transformer import TransformerPair

WEIGHT_TOKENS = 8_192
"""Tokens that are scored with rounded weights: so many tell four bits, at a bounded price."""

_SHARES = (1.0, 0.3)
"""How strongly the laws of rounded weights are mixed with the target's own."""


def weight_bets(scored: Scored, pair: TransformerPair, before: int) -> stats.BetSums | None:
    """Bet on each of the roundings that a request was scored with; None if there is none.

    ``before``: tokens of the requests before. Bets end at the token ``WEIGHT_TOKENS``, inside a
    request or not: whether all of a request counts must not depend on what it turned out to be.
    """
    tokens = np.array(scored.request.tokens)[: max(WEIGHT_TOKENS - before, 0)]
    if not len(tokens):
        return None
    total: stats.BetSums | None = None
    for name, logits in scored.rounded.items():
        rows = scored.request.rows(logits[: len(tokens)], pair)
        p = scored.p[: len(tokens)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(rows == p, 1.0, rows / p)
        bet = stats.bet_sums(
            name, ratios[np.arange(len(tokens)), tokens], ratios.min(axis=1),
            ratios.max(axis=1), shares=_SHARES,
        )  # fmt: skip
        total = bet if total is None else total.beside(bet)
    return total
