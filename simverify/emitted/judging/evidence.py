"""What is kept of rescored tokens: randomised PITs in the orders, scores, neighbours."""

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.judging.features import WIDTHS, member_tables, orders, score_tables
from simverify.emitted.judging.looks import Snapshot, pit_bets
from simverify.emitted.judging.repeats import SAME_TOKENS, Repeats
from simverify.emitted.judging.reported import Reported
from simverify.emitted.judging.worst import Worst
from simverify.emitted.rescoring import LOGIT_MARGIN, Scored, distances
from simverify.simulators.kernels.philox import PIT

_PIT_VARIANCE = 1.0 / 12.0


class OutputEvidence:
    """Sums over requests, in their order; ``add`` each with its rows.

    ``pits``: for each request float64 (orders, n), in the orders of ``orders``; one uniform
    randomises all of a token's. ``places``: for each request float64 (orders, 2, n), the ends of
    the intervals that they lie in. ``scores``, ``indicators``: by name. ``deviations``: for each
    test of a mean, by its name, float64 (2, n) a request: the token's own value less its mean
    under its row, and the variance there. ``spreads``: float64 (n,) a request, the standard
    deviation of a row's logits. ``rates``: bets on each token's rate; ``weights``: bets on
    rounded weights, over the first tokens; ``snapshots``: all bets after each request.
    ``reported``: the engine's own log probabilities. ``repeats``: answers to prompts that were
    asked before.
    ``same``: whether a token is that of the request before at the same place. ``copies``: for
    each pair of neighbours that begin alike the probabilities of those tokens, float64 (k,);
    ``neighbours`` of them were compared. ``near``, ``unsupported``: tokens that truncation cuts
    off, within the margin of it and beyond. ``distance``: sum of the TVs between the two
    scorings, ``worst`` the largest. ``tokens``: those that the target expected least.
    """

    def __init__(self, seed: int, proxy: bool) -> None:
        self.orders = ("token", "descending P", "q/p")[: 3 if proxy else 2]
        self.pits: list[Floats] = []
        self.places: list[Floats] = []
        self.scores: dict[str, stats.ScoreSums] = {}
        self.indicators: dict[str, stats.IndicatorSums] = {}
        self.deviations: dict[str, list[Floats]] = {}
        self.spreads: list[Floats] = []
        self.rates = stats.LearnedRates()
        self.weights: stats.BetSums | None = None
        self.snapshots: list[Snapshot] = []
        self.tokens = Worst()
        self.reported = Reported()
        self.repeats = Repeats()
        self.same: stats.IndicatorSums | None = None
        self.copies: list[Floats] = []
        self.neighbours = self.n = 0
        self.distance = self.worst = 0.0
        self._seed, self._before = seed, np.zeros(0, np.int64)
        self._gaps: list[Floats] = []
        self._bets: stats.BetSums | None = None
        self._shift = 0.0

    def add(self, scored: Scored) -> None:
        """Count a request."""
        tokens = np.array(scored.request.tokens)
        self.n += len(tokens)
        self._gaps.append(scored.gap[scored.gap > 0.0])
        self._shift = max(self._shift, float(scored.shift.max()))
        self.reported.add(scored)
        self.repeats.add(scored.request, scored.p)
        off = distances(scored.p, scored.p_again)
        self.distance += float(off.sum())
        self.worst = max(self.worst, float(off.max()))
        self.tokens.add(scored.number, scored.p, tokens, scored.gap)
        self._order(scored, tokens)
        self._score(scored, tokens)
        self.rates.add(scored.p, tokens)
        self.spreads.append(logit_spread(scored.p_again))
        if scored.number:
            self._compare(scored.p, tokens)
        self._before = tokens
        bets = pit_bets(dict(zip(self.orders, self.pits[-1], strict=True)))
        self._bets = bets if self._bets is None else self._bets + bets
        self.snapshots.append(Snapshot(self.n, self._bets, self.rates.sums, self.weights))

    def bet_on_weights(self, bets: stats.BetSums | None) -> None:
        """Count the bets on rounded weights of a request, if there are any."""
        if bets is not None:
            self.weights = bets if self.weights is None else self.weights + bets

    def allow(self, shift: float) -> None:
        """Note that a token's log-probability moved by ``shift``, in another precision say."""
        self._shift = max(self._shift, shift)

    @property
    def margin(self) -> float:
        """How far two logits may be off from each other: twice the rounding seen, or more."""
        return max(LOGIT_MARGIN, 2.0 * self._shift)

    @property
    def near(self) -> int:
        """Tokens that truncation cuts off, within the margin."""
        return sum(int((gaps <= self.margin).sum()) for gaps in self._gaps)

    @property
    def unsupported(self) -> int:
        """Tokens that truncation cuts off, beyond the margin."""
        return self.beyond(self.margin)

    def beyond(self, margin: float) -> int:
        """Return how many tokens are cut off where two logits may be off by ``margin``."""
        return sum(int((gaps > margin).sum()) for gaps in self._gaps)

    def _order(self, scored: Scored, tokens: npt.NDArray[np.int64]) -> None:
        key = np.array([self._seed, PIT], np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 1, scored.number]))
        v = draws.random(len(tokens))
        keys = orders(scored.p_again, scored.q)
        places = np.stack([stats.pit_bounds(scored.p, order, tokens) for order in keys.values()])
        found = np.minimum(places[:, 0] + v * (places[:, 1] - places[:, 0]), 1.0)
        self.places.append(places)
        self.pits.append(found)
        for name, own in zip(keys, found, strict=True):
            self._note(f"PIT in {name} order", own - 0.5, np.full(len(own), _PIT_VARIANCE))

    def _score(self, scored: Scored, tokens: npt.NDArray[np.int64]) -> None:
        p, again, q = scored.p, scored.p_again, scored.q
        rows = np.arange(len(tokens))
        for name, table in score_tables(again, q).items():
            law = stats.score_moments(p, table)
            own = table[rows, tokens]
            found = stats.score_sums(
                own, mean=law.mean, variance=law.variance, third=law.third, fourth=law.fourth,
                low=law.low, high=law.high, width=WIDTHS[name],
            )  # fmt: skip
            self.scores[name] = self.scores[name] + found if name in self.scores else found
            self._note(f"score {name}", own - law.mean, law.variance)
        for name, member in member_tables(again, q).items():
            chance = np.clip((p * member).sum(axis=1), 0.0, 1.0)
            bits = stats.indicator_sums(member[rows, tokens], chance)
            self.indicators[name] = (
                self.indicators[name] + bits if name in self.indicators else bits
            )
            self._note(f"score {name}", member[rows, tokens] - chance, chance * (1.0 - chance))

    def _note(self, name: str, off: Floats, variance: Floats) -> None:
        self.deviations.setdefault(name, []).append(np.stack([off, variance]))

    def _compare(self, p: Floats, tokens: npt.NDArray[np.int64]) -> None:
        """Compare a request with the one before, whose tokens have a chance under its rows too."""
        before = self._before
        k = min(len(before), len(tokens))
        chances = np.minimum(p[np.arange(k), before[:k]], 1.0)
        found = stats.indicator_sums(tokens[:k] == before[:k], chances)
        self.same = found if self.same is None else self.same + found
        self.neighbours += 1
        head = min(len(before), SAME_TOKENS)
        if np.array_equal(tokens[:head], before[:head]):
            self.copies.append(chances[:head])


def logit_spread(rows: Floats) -> Floats:
    """Standard deviation of each row's logits over the tokens that are kept, float64 (n,)."""
    logs = stats.surprise(rows)
    kept = rows > 0.0
    count = kept.sum(axis=1)
    mean = np.where(kept, logs, 0.0).sum(axis=1) / count
    found: Floats = np.sqrt(np.where(kept, (logs - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    return found
