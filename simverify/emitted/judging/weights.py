"""Whether the engine's weights were rounded: bets on the laws of rounded weights."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.rescoring import Scored
from simverify.models.real.roundings import Rounding
from simverify.models.real.transformer import TransformerPair

WEIGHT_TOKENS = 8_192
"""Tokens that are scored with rounded weights: so many tell four bits, at a bounded price."""

ALL_TOKENS = 1_024
"""First tokens on which all roundings are bet on: enough to tell which are none of the engine's."""

KEPT = 3
"""Roundings that are bet on after that: those that won most."""

_SHARES = (1.0, 0.3)
"""How strongly the laws of rounded weights are mixed with the target's own."""


def ratios_of(one: Scored, logits: NDArray[np.float32], pair: TransformerPair) -> Floats:
    """Return how much likelier tokens are by the logits of rounded weights, float64 (3, n).

    Of the emitted token, then the least and the largest of its row.
    """
    own, rows = np.array(one.request.tokens), one.request.rows(logits, pair)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.where(rows == one.p, 1.0, rows / one.p)
    seen = table[np.arange(len(own)), own]
    return np.stack([seen, table.min(axis=1), table.max(axis=1)])


class WeightBets:
    """Bets on ``roundings`` by their names, token after token; most of them end early.

    Where bets end is fixed by the number of the token, inside a request or not, and which go on is
    known by then: whether a token counts must not depend on what it turned out to be.
    """

    def __init__(self, roundings: Mapping[str, Rounding]) -> None:
        self.names, self.n = tuple(roundings), 0
        self._left = dict(roundings)
        self._wealth = np.zeros((len(self.names), len(_SHARES)))

    def wanted(self) -> Mapping[str, Rounding]:
        """Return the roundings that the next token is to be scored with."""
        return self._left if self.n < WEIGHT_TOKENS else {}

    def scored(self, one: Scored, pair: TransformerPair) -> stats.BetSums | None:
        """Bet on a request by the roundings that it was scored with; None if there is none."""
        if not one.rounded:
            return None
        return self.bet({name: ratios_of(one, x, pair) for name, x in one.rounded.items()})

    def bet(self, ratios: Mapping[str, Floats]) -> stats.BetSums | None:
        """Bet on the next tokens by ratios, float64 (3, n), of those that are ``wanted`` at least.

        A ratio is of the emitted token's probabilities, then the least and the largest of its row.
        Returned are the sums of all bets over the tokens that count; None if none does.
        """
        n, before, start = next(iter(ratios.values())).shape[1], self.n, 0
        found: stats.BetSums | None = None
        for limit in (min(ALL_TOKENS, WEIGHT_TOKENS), WEIGHT_TOKENS):
            end = int(np.clip(limit - before, start, n))
            if end > start:
                own = self._part({name: x[:, start:end] for name, x in ratios.items()})
                found = own if found is None else found + own
                start = end
        return found

    def _part(self, ratios: Mapping[str, Floats]) -> stats.BetSums:
        n = next(iter(ratios.values())).shape[1]
        found: stats.BetSums | None = None
        for i, name in enumerate(self.names):
            # What is bet on no more wins nothing and loses nothing.
            seen = ratios[name] if name in self._left else np.ones((3, n))
            bet = stats.bet_sums(name, *seen, shares=_SHARES)
            self._wealth[i] += bet.log_wealth
            found = bet if found is None else found.beside(bet)
        assert found is not None
        self.n += n
        if self.n == ALL_TOKENS:
            best = np.argsort(-self._wealth.max(axis=1), kind="stable")[:KEPT]
            self._left = {self.names[i]: self._left[self.names[i]] for i in best.tolist()}
        return found
