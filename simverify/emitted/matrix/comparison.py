"""Which of the named laws a cell's tokens follow: each is rejected by bets on all the others.

A bet on one law against another is their ratio of an emitted token's chances. Were the tokens
those of the other, its product would rarely be large: with probability alpha at most above 1/alpha.
So the law that an engine follows is rejected with probability alpha at most, whichever it is, and
what is left when all others are rejected is named.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.matrix.ways import Outcome, Seen, Way
from simverify.stats.ratios.bets import RATIO_CAP

SHARES = (1.0, 0.3, 0.05)
"""How strongly another law is mixed into the one that is bet against."""

_NORMAL = 1.2816
"""Quantile of the normal distribution at power .9."""

_SEARCHED = 60


@dataclass(frozen=True)
class Compared:
    """What tokens say of the laws.

    ``left``: outcomes that were not rejected, likeliest first, each with words. ``found``: the
    least share of tokens drawn without the parameter that would have been found with power .9,
    None if not even all would. ``evalue``: natural logarithm of the e-value against the law that
    was asked for. ``unlike``: whether it was rejected as no law fits, by its PITs. ``tells``: how
    many tokens would leave one outcome, with power .9 if bets go on as so far; None if one is left,
    or if they win nothing.
    """

    left: tuple[tuple[Outcome, str], ...]
    found: float | None
    evalue: float
    unlike: bool
    tells: int | None


class Comparison:
    """Sums over the requests of a cell; ``ways[0]`` is the law that was asked for."""

    def __init__(self, ways: Sequence[Way], seed: int) -> None:
        self.ways = tuple(ways)
        self.n = 0
        k = len(self.ways)
        self._wealth, self._squares = np.zeros((2, k, k, len(SHARES)))
        self._chance = np.zeros(k)
        self._moments = np.zeros((2, 2, len(SHARES)))
        self._pits: list[list[Floats]] = [[] for _ in self.ways]
        self._rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 4, 0]))

    def add(self, seen: Seen) -> None:
        """Count a request."""
        tokens = np.array(seen.request.tokens)
        self.n += len(tokens)
        v = self._rng.random(len(tokens))
        chances = np.empty((len(self.ways), len(tokens)))
        asked = dropped = None
        for i, way in enumerate(self.ways):
            if way.rows is None:
                assert way.chances is not None
                chances[i] = way.chances(seen)
                continue
            rows = way.rows(seen)
            chances[i] = seen.of(rows)
            self._pits[i].append(_pits(rows, tokens, v))
            if i == 0:
                asked = rows
            elif way.outcome == "dropped" and dropped is None:
                dropped = rows
        with np.errstate(divide="ignore"):
            self._chance += np.log(chances).sum(axis=1)
        for i, own in enumerate(chances):
            ratios = _ratio(chances, own)
            with np.errstate(divide="ignore"):
                for s, share in enumerate(SHARES):
                    won = np.log1p(share * (ratios - 1.0))
                    self._wealth[i, :, s] += won.sum(axis=1)
                    self._squares[i, :, s] += (won**2).sum(axis=1)
        if asked is not None and dropped is not None:
            self._moment(asked, dropped)

    def judge(self, alpha: float, ball: float, planned: int = 0) -> Compared:
        """Return what is left at level ``alpha``, where rows may be off by ``ball`` on average.

        Tokens below those ``planned`` are filled up with fresh uniforms in the PITs: how many came
        may depend on what they were, and all together are uniform then whatever it was.
        """
        fill = self._rng.random((2, max(planned - self.n, 0)))
        price = self.n * np.log1p(ball * np.array(SHARES) * RATIO_CAP)
        weights = self._weights()
        left = []
        evalues = np.empty(len(self.ways))
        unlike = False
        for i, way in enumerate(self.ways):
            bets = self._wealth[i] - price
            with np.errstate(divide="ignore"):
                mixed = special.logsumexp(bets, axis=1, b=1.0 / len(SHARES))
                evalues[i] = special.logsumexp(mixed, b=weights[i])
            rejected = evalues[i] >= math.log(2.0 / alpha)
            if not rejected and way.rows is not None:
                rejected = self._unlike(i, fill, alpha / 2.0, ball)
                unlike = unlike or (i == 0 and rejected)
            if not rejected:
                left.append(i)
        left.sort(key=lambda i: -self._chance[i])
        found = self._least_share(alpha, price, float(weights[0].max()))
        named = dict.fromkeys((self.ways[i].outcome, self.ways[i].words) for i in left)
        tells = self._tells(left, alpha, price, weights)
        return Compared(tuple(named), found, float(evalues[0]), unlike, tells)

    def _tells(
        self, left: Sequence[int], alpha: float, price: Floats, weights: Floats
    ) -> int | None:
        """Return after how many tokens the likeliest outcome's bets would reject the others."""
        others = [i for i in left if self.ways[i].outcome != self.ways[left[0]].outcome]
        if not self.n:
            return None
        most = 0.0
        for i in others:
            weight = weights[i, left[0]] / len(SHARES)
            mean = (self._wealth[i, left[0]] - price) / self.n
            with np.errstate(invalid="ignore"):  # what a law rules out is lost at once
                square = self._squares[i, left[0]] / self.n - (mean + price / self.n) ** 2
            win = np.isfinite(square) & (mean > 0)
            if not win.any():
                return None
            mean, spread = mean[win], _NORMAL * np.sqrt(np.maximum(square[win], 0.0))
            root = spread + np.sqrt(spread**2 + 4 * mean * math.log(2.0 / (alpha * weight)))
            most = max(most, float(((root / (2 * mean)) ** 2).min()))
        return math.ceil(most) if others else None

    def _weights(self) -> Floats:
        """Of each bet against each law: outcomes alike, and alike within an outcome."""
        k = len(self.ways)
        found = np.zeros((k, k))
        for i in range(k):
            others = [j for j in range(k) if j != i]
            kinds = {self.ways[j].outcome for j in others}
            for j in others:
                same = sum(self.ways[m].outcome == self.ways[j].outcome for m in others)
                found[i, j] = 1.0 / (len(kinds) * same)
        return found

    def _unlike(self, way: int, fill: Floats, alpha: float, ball: float) -> bool:
        """Whether tokens are not those of a law, by its PITs in two orders."""
        pits = np.concatenate([*self._pits[way], fill], axis=1)
        for row in pits:
            bins = np.minimum((row * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
            histogram = np.bincount(bins, minlength=stats.PIT_BINS)
            if stats.pit_ks(histogram, alpha=alpha / len(pits), ball=ball, name="PIT").rejected:
                return True
        return False

    def _moment(self, asked: Floats, dropped: Floats) -> None:
        """Add what bets on the parameter being dropped win: means and squares, by either law."""
        ratios = _ratio(dropped, asked)
        for s, share in enumerate(SHARES):
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log1p(share * (ratios - 1.0)), -50.0)
            for law, rows in enumerate((asked, dropped)):
                mean = (rows * logs).sum(axis=1)
                self._moments[law, 0, s] += mean.sum()
                self._moments[law, 1, s] += ((rows * logs**2).sum(axis=1)).sum()

    def _least_share(self, alpha: float, price: Floats, weight: float) -> float | None:
        needed = math.log(2.0 / alpha) - math.log(weight / len(SHARES)) if weight else math.inf
        for share in np.geomspace(0.005, 1.0, _SEARCHED):
            mean = (1 - share) * self._moments[0, 0] + share * self._moments[1, 0] - price
            square = (1 - share) * self._moments[0, 1] + share * self._moments[1, 1]
            spread = np.sqrt(np.maximum(square - (mean + price) ** 2 / max(self.n, 1), 0.0))
            if (mean - _NORMAL * spread >= needed).any():
                return float(share)
        return None


def _ratio(others: Floats, own: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(others == own, 1.0, others / own)
    return np.minimum(found, RATIO_CAP)


def _pits(rows: Floats, tokens: Floats, v: Floats) -> Floats:
    """Randomised PITs in token order and in descending P, float64 (2, n)."""
    found = []
    for kind in ("index", "descending"):
        order = stats.order_key(kind, rows)
        low, high = stats.pit_bounds(rows, order, tokens)
        found.append(np.clip(low + v * (high - low), 0.0, 1.0))
    return np.stack(found)
