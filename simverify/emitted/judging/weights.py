"""Whether the engine's weights were rounded: bets on the laws of rounded weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simverify import results as doc
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
    _, table = _laws(one, logits, pair)
    return _of_emitted(one, table)


def _laws(one: Scored, logits: NDArray[np.float32], pair: TransformerPair) -> tuple[Floats, Floats]:
    """Return the rows of rounded weights and their ratios to the target's, float64 (n, V)."""
    rows = one.request.rows(logits, pair)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rows, np.where(rows == one.p, 1.0, rows / one.p)


def _of_emitted(one: Scored, table: Floats) -> Floats:
    own = np.array(one.request.tokens)
    return np.stack([table[np.arange(len(own)), own], table.min(axis=1), table.max(axis=1)])


@dataclass
class Gains:
    """What tokens of one format would win for its bets, summed over the contexts of ``n`` tokens.

    The target's rows and the format's are both known, so that this needs no such tokens. ``won``,
    ``squares``: sums of the mean and mean square of a token's log factor under the format's law,
    float64 (S,), by share; ``widest``: the largest ratio less the least; ``tv``: sum of distances.
    """

    n: int = 0
    tv: float = 0.0
    widest: float = 0.0
    won: Floats = field(default_factory=lambda: np.zeros(len(_SHARES)))
    squares: Floats = field(default_factory=lambda: np.zeros(len(_SHARES)))

    def add(self, p: Floats, rows: Floats, table: Floats) -> None:
        """Count contexts with the target's rows and the format's, float64 (n, V), and ratios."""
        capped = np.minimum(table, stats.RATIO_CAP)
        for i, share in enumerate(_SHARES):
            # A token that the format cannot emit is none that would be lost on. The factor is not
            # taken apart into 1 and the rest, which would be -1 for a ratio below 1e-16.
            logs = np.log(np.where(rows > 0.0, (1.0 - share) + share * capped, 1.0))
            self.won[i] += float((rows * logs).sum())
            self.squares[i] += float((rows * logs**2).sum())
        self.n += len(rows)
        self.tv += float(np.abs(rows - p).sum()) / 2.0
        self.widest = max(self.widest, float((capped.max(axis=1) - capped.min(axis=1)).max()))

    def document(
        self, name: str, tokens: int, alpha: float, ball: float, bets: int
    ) -> doc.FormatPower:
        """Return with which power ``tokens`` tokens of this format fail, and how many it takes."""
        powers, needed = [], []
        for share, won, squares in zip(_SHARES, self.won, self.squares, strict=True):
            mean = float(won) / self.n
            variance = max(float(squares) / self.n - mean**2, 0.0)
            price = float(np.log1p(ball * share * self.widest))
            known = {"mean": mean, "variance": variance, "price": price}
            powers.append(stats.bet_power(tokens, alpha=alpha, bets=bets, **known))
            due = stats.bet_samples(alpha=alpha, bets=bets, **known)
            needed += [] if due is None or due > WEIGHT_TOKENS else [due]
        return doc.FormatPower(
            name=name, tv=self.tv / self.n, power=max(powers), needed=min(needed, default=None)
        )


class WeightBets:
    """Bets on ``roundings`` by their names, token after token; most of them end early.

    Where bets end is fixed by the number of the token, inside a request or not, and which go on is
    known by then: whether a token counts must not depend on what it turned out to be.
    """

    def __init__(self, roundings: Mapping[str, Rounding]) -> None:
        self.names, self.n = tuple(roundings), 0
        self._left = dict(roundings)
        self._wealth = np.zeros((len(self.names), len(_SHARES)))
        self._gains = {name: Gains() for name in self.names}

    def wanted(self) -> Mapping[str, Rounding]:
        """Return the roundings that the next token is to be scored with."""
        return self._left if self.n < WEIGHT_TOKENS else {}

    def scored(self, one: Scored, pair: TransformerPair) -> stats.BetSums | None:
        """Bet on a request by the roundings that it was scored with; None if there is none."""
        if not one.rounded:
            return None
        ratios = {}
        for name, logits in one.rounded.items():
            rows, table = _laws(one, logits, pair)
            ratios[name] = _of_emitted(one, table)
            self._gains[name].add(one.p, rows, table)
        return self.bet(ratios)

    def powers(self, alpha: float, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which weights the tokens bet on would have told, at this level and ball.

        Formats whose laws are the target's own, and those that were never scored, have no entry.
        """
        bets = len(self.names) * len(_SHARES)
        return tuple(
            gains.document(name, self.n, alpha, ball, bets)
            for name, gains in self._gains.items()
            if gains.n and gains.tv > 0.0
        )

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
