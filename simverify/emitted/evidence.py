"""What is kept of rescored tokens: randomised PITs in the orders, scores, neighbours."""

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.rescoring import LOGIT_MARGIN, Scored, distances
from simverify.simulators.kernels.philox import PIT
from simverify.simulators.kernels.rows.row_sums import RARE
from simverify.stats.scores.functions import SURPRISE_CAP

SAME_TOKENS = 32
"""First tokens of a request that make a copy of it, if the next has them all."""

_SCORES = {"surprise": ("-log p", SURPRISE_CAP), "accept": ("min(1, q/p)", 1.0),
           "contrast": ("(q-p)/(q+p)", 2.0)}  # fmt: skip


class OutputEvidence:
    """Sums over requests, in their order; ``add`` each with its rows.

    ``pits``: for each request float64 (orders, n), in the orders of ``orders``; one uniform
    randomises all of a token's. ``scores``, ``indicators``: by name. ``same``: whether a token
    is that of the request before at the same place. ``copies``: for each pair of neighbours
    that begin alike the probabilities of those tokens, float64 (k,); ``neighbours`` of them
    were compared. ``near``, ``unsupported``: tokens that truncation cuts off, within the
    margin of it and beyond. ``distance``: sum of the TVs between the two scorings, ``worst``
    the largest.
    """

    def __init__(self, seed: int, proxy: bool) -> None:
        self.orders = ("token", "descending P", "q/p")[: 3 if proxy else 2]
        self.pits: list[Floats] = []
        self.scores: dict[str, stats.ScoreSums] = {}
        self.indicators: dict[str, stats.IndicatorSums] = {}
        self.same: stats.IndicatorSums | None = None
        self.copies: list[Floats] = []
        self.neighbours = self.n = 0
        self.distance = self.worst = 0.0
        self._seed, self._before = seed, np.zeros(0, np.int64)
        self._gaps: list[Floats] = []
        self._shift = 0.0

    def add(self, scored: Scored) -> None:
        """Count a request."""
        tokens = np.array(scored.request.tokens)
        self.n += len(tokens)
        self._gaps.append(scored.gap[scored.gap > 0.0])
        self._shift = max(self._shift, float(scored.shift.max()))
        off = distances(scored.p, scored.p_again)
        self.distance += float(off.sum())
        self.worst = max(self.worst, float(off.max()))
        self.pits.append(self._ordered(scored, tokens))
        self._score(scored, tokens)
        if scored.number:
            self._compare(scored.p, tokens)
        self._before = tokens

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

    def _ordered(self, scored: Scored, tokens: npt.NDArray[np.int64]) -> Floats:
        again = scored.p_again
        keys = [stats.order_key("index", again), stats.order_key("descending", again)]
        if scored.q is not None:
            keys.append(stats.order_key("ratio", again, scored.q))
        key = np.array([self._seed, PIT], np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 1, scored.number]))
        v, found = draws.random(len(tokens)), np.empty((len(keys), len(tokens)))
        for place, order in enumerate(keys):
            below, above = stats.pit_bounds(scored.p, order, tokens)
            found[place] = np.minimum(below + v * (above - below), 1.0)
        return found

    def _score(self, scored: Scored, tokens: npt.NDArray[np.int64]) -> None:
        p, again, q = scored.p, scored.p_again, scored.q
        tables = {"surprise": stats.surprise(again)}
        members = {f"p < {level:g}": stats.rare_token(again, below=level) for level in RARE}
        if q is not None:
            tables |= {"accept": stats.accept(again, q), "contrast": stats.contrast(again, q)}
            members["q > p"] = stats.q_above_p(again, q)
        rows = np.arange(len(tokens))
        for field, table in tables.items():
            name, width = _SCORES[field]
            law = stats.score_moments(p, table)
            own = table[rows, tokens]
            found = stats.score_sums(
                own, mean=law.mean, variance=law.variance, third=law.third, fourth=law.fourth,
                low=law.low, high=law.high, width=width,
            )  # fmt: skip
            self.scores[name] = self.scores[name] + found if name in self.scores else found
        for name, member in members.items():
            chance = np.clip((p * member).sum(axis=1), 0.0, 1.0)
            bits = stats.indicator_sums(member[rows, tokens], chance)
            self.indicators[name] = (
                self.indicators[name] + bits if name in self.indicators else bits
            )

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
