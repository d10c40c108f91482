"""What a watch keeps of emitted tokens: bets on their PITs, which last for its life."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.checks import MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.emitted.judging.features import orders
from simverify.emitted.rescoring import Scored
from simverify.emitted.watching.formats import FormatBets
from simverify.emitted.watching.moved import LEAST_BALL, Moved, kind_of
from simverify.simulators.kernels.philox import PIT

BETS = stats.StepBets.grid(
    (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 15 / 16), (0.015, 0.03, 0.06, 0.12, 0.25)
)
"""Bets on the PITs of an order: that one lies below a cut with another chance."""

POWER = 0.9

MOST_WEIGHTS = 1_000_000
"""Requests of which one is bet on by rounded weights, at most."""


@dataclass(frozen=True)
class WatchSettings:
    """How a life is judged: ``alpha`` for all of it, and the deviation whose delay is told.

    ``weights``: of so many requests one is bet on by rounded weights, too; 0 for none.
    """

    alpha: float = 1e-6
    detect: float = 0.05
    seed: int = 0
    weights: int = 0

    def __post_init__(self) -> None:
        ranges_iv((
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", self.detect, MIN_DETECT <= self.detect < 1,
             f"{MIN_DETECT:g} or more, below 1"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
            ("weights", self.weights, 0 <= self.weights <= MOST_WEIGHTS,
             f"0 to {MOST_WEIGHTS:,}: one request in so many, 0 for none"),
        ))  # fmt: skip

    @property
    def hurdle(self) -> float:
        """Logarithm of the e-value at which the alarm is raised."""
        return -math.log(self.alpha)

    def delay(self, after: int, proxy: bool, balls: Mapping[str, float]) -> float:
        """Tokens after a change until an alarm, at most, with probability ``POWER``.

        It takes the order of the largest ball: the change may show in no other.
        """
        alpha = self.alpha / 2.0 if self.weights else self.alpha  # as half of the stake is theirs
        return stats.lasting_delay(
            self.detect, BETS, alpha=alpha, groups=len(order_names(proxy)), after=after,
            ball=max(balls.values(), default=LEAST_BALL), power=POWER,
        )  # fmt: skip

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be told, and when."""
        first, later = (self.delay(n, proxy, {}) for n in (0, 1_000_000))
        formats = (
            f"; one request in {self.weights:,} is scored with weights in few bits too, for which "
            f"no delay is promised"
        )
        return (
            f"plan: alarm with probability {self.alpha:g} at most, ever, where nothing is wrong; a "
            f"deviation of TV {self.detect:g} from the start is told within {first:,.0f} tokens "
            f"with probability {POWER:g}, one after a million tokens within {later:,.0f}; what "
            f"rounding of the rows may come to is added{formats if self.weights else ''}"
        )


def order_names(proxy: bool) -> tuple[str, ...]:
    """Names of the orders that PITs are made in."""
    return ("token", "descending P", "q/p")[: 3 if proxy else 2]


class Canary:
    """Evidence over a life; ``add`` each request with its rows, in order.

    ``moved``: what rounding may come to. ``alarm``: why, None for none.
    """

    def __init__(self, settings: WatchSettings, proxy: bool, moved: Moved | None = None) -> None:
        self.settings, self.proxy = settings, proxy
        self.moved = Moved() if moved is None else moved
        self.lasting = stats.LastingBets.begin(len(BETS.cuts) * len(order_names(proxy)))
        self.formats = FormatBets(settings.weights) if settings.weights else None
        self.highest, self.highest_at = 0.0, 0
        self.requests = self.near = self.unsupported = 0
        self.alarm: str | None = None
        self.alarm_at: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self.lasting.n

    @property
    def balls(self) -> dict[str, float]:
        """By the name of an order, how far the CDF of a sampled row may be off, on average."""
        return self.moved.balls(order_names(self.proxy))

    @property
    def log_evalue(self) -> float:
        """Logarithm of the e-value now: of the bets on PITs, or the mean with those on formats."""
        if self.formats is None:
            return self.lasting.log_evalue
        return float(_mean(self.lasting.log_evalue, self.formats.lasting.log_evalue))

    def add(self, scored: Scored, formats: Floats | None = None) -> None:
        """Bet on the tokens of the next request, whose number is ``requests``.

        ``formats``: logarithms of the factors of bets on formats, if the request is one of theirs.
        """
        tokens = np.array(scored.request.tokens)
        first, names = self.tokens, order_names(self.proxy)
        balls = self.moved.balls(names, kind_of(scored))
        self.moved.see(scored)
        margin = self.moved.margin
        beyond = np.flatnonzero(scored.gap > margin)
        self.near += int(((scored.gap > 0.0) & (scored.gap <= margin)).sum())
        self.unsupported += len(beyond)
        key = np.array([self.settings.seed, PIT], np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 3, self.requests]))
        v = draws.random(len(tokens))
        factors = []
        for name, order in orders(scored.p_again, scored.q).items():
            low, high = stats.pit_bounds(scored.p, order, tokens)
            u = np.minimum(low + v * (high - low), 1.0)
            price = np.log1p(balls[name] * BETS.spans)
            factors.append(BETS.log_factors(u) - price[:, None])
        means = self.lasting.add(np.concatenate(factors))
        if self.formats is not None:
            theirs = np.full(len(tokens), self.formats.lasting.log_evalue)
            if formats is not None:
                theirs = self.formats.add(formats, max(balls.values()))
            means = _mean(means, theirs)
        top = int(means.argmax())
        if means[top] > self.highest:
            self.highest, self.highest_at = float(means[top]), first + top + 1
        self.requests += 1
        found = []
        if len(beyond):
            found.append((
                first + int(beyond[0]) + 1,
                f"a token was emitted that is cut off, by more than a logit of {margin:.2g}",
            ))  # fmt: skip
        over = np.flatnonzero(means >= self.settings.hurdle)
        if len(over):
            evidence = means[over[0]] / math.log(10.0)
            found.append((
                first + int(over[0]) + 1,
                f"the tokens stray from the target, e-value 1e{evidence:.1f}; {self.leading()}",
            ))  # fmt: skip
        if found and self.alarm is None:
            self.alarm_at, self.alarm = min(found)

    def leading(self) -> str:
        """Say which bet is worth most: a diagnosis, without an error rate."""
        if self.formats is not None and self.formats.lasting.log_evalue > self.lasting.log_evalue:
            return f"they fit weights rounded to {self.formats.leading()}"
        best = int(self.lasting.log_wealth.argmax())
        order, bet = divmod(best, len(BETS.cuts))
        cut, share = BETS.cuts[bet], BETS.shares[bet]
        side = "more" if share > cut else "fewer"
        return (
            f"most in the order {order_names(self.proxy)[order]}: {side} than {cut:.3g} of the "
            f"tokens lie in the first {cut:.3g} of their row"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it; -inf as null."""
        wealth = [float(x) if math.isfinite(x) else None for x in self.lasting.log_wealth]
        return {
            "log_wealth": wealth, "tokens": self.lasting.n, "highest": self.highest,
            "highest_at": self.highest_at, "requests": self.requests, "near": self.near,
            "unsupported": self.unsupported, "alarm": self.alarm, "alarm_at": self.alarm_at,
            "moved": self.moved.as_dict(),
            **({} if self.formats is None else {"formats": self.formats.as_dict()}),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], settings: WatchSettings, proxy: bool) -> "Canary":
        """Return what :meth:`as_dict` gave; raises ``KeyError`` or ``ValueError`` if it is none."""
        names = order_names(proxy)
        found = cls(settings, proxy, Moved.from_dict(value["moved"], names))
        wealth = np.array([-np.inf if x is None else float(x) for x in value["log_wealth"]])
        counts = {name: value[name] for name in ("tokens", "requests", "near", "unsupported")}
        if wealth.shape != found.lasting.log_wealth.shape or np.isnan(wealth).any():
            raise ValueError(f"{len(wealth)} bets")
        if not all(type(n) is int and n >= 0 for n in counts.values()):
            raise ValueError(f"counts {counts}")
        found.lasting = stats.LastingBets(log_wealth=wealth, n=counts["tokens"])
        found.highest, found.highest_at = float(value["highest"]), int(value["highest_at"])
        if settings.weights:
            found.formats = FormatBets.from_dict(value["formats"], settings.weights, found.tokens)
        found.requests, found.near = counts["requests"], counts["near"]
        found.unsupported = counts["unsupported"]
        found.alarm, found.alarm_at = value["alarm"], value["alarm_at"]
        return found


def _mean(first: Any, second: Any) -> Any:
    """Return the logarithm of the mean of two e-values, of their logarithms."""
    return np.logaddexp(first, second) - math.log(2.0)
