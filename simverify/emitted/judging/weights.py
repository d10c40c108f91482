"""Whether the engine's weights were rounded: bets on the laws of rounded weights."""

import numpy as np

from simverify import stats
from simverify.emitted.rescoring import Scored
from simverify.models.real.sampling import Sampling

WEIGHT_TOKENS = 8_192
"""Tokens that are scored with rounded weights: so many tell four bits, at a bounded price."""

_SHARES = (1.0, 0.3)
"""How strongly the laws of rounded weights are mixed with the target's own."""


def weight_bets(scored: Scored, law: Sampling) -> stats.BetSums | None:
    """Bet on each of the roundings that a request was scored with; None if there is none."""
    tokens = np.array(scored.request.tokens)
    total: stats.BetSums | None = None
    for name, logits in scored.rounded.items():
        rows = law.rows(logits)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(rows == scored.p, 1.0, rows / scored.p)
        bet = stats.bet_sums(
            name, ratios[np.arange(len(tokens)), tokens], ratios.min(axis=1),
            ratios.max(axis=1), shares=_SHARES,
        )  # fmt: skip
        total = bet if total is None else total.beside(bet)
    return total
