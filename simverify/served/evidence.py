"""The evidence of rescored tokens: PITs, scores, bets, reported log probabilities, worst tokens."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import special

from simverify import results as doc
from simverify import stats
from simverify.arrays import Floats
from simverify.models.rounding import WeightFormat
from simverify.models.transformer import TransformerPair
from simverify.served.counters import FirstDrafts
from simverify.served.requests import Request, logprob_resolution
from simverify.served.rescore import LOGIT_MARGIN, ScoredRequest, tv_distances
from simverify.served.variants import (
    VARIANT_TOKENS,
    VARIANT_TOLERANCE,
    variant_bets,
    variant_ratios,
)
from simverify.simulators.kernels.philox import PIT
from simverify.simulators.kernels.row_sums import RARE
from simverify.stats.means import empirical_bernstein
from simverify.stats.pits import MIN_PAIRS
from simverify.stats.scores import SURPRISE_CAP

if TYPE_CHECKING:
    from simverify.models.distribution import Law


# Reported log probabilities: can they be those of the distribution that the tokens were drawn from?
#
# Only then do they say anything about the tokens. A right server may report anything: its draft's
# values for accepted drafts, other logarithms, rows of another place. If the reported distribution
# is the one that was sampled, then its tokens are likelier by it than by any other on average, its
# values lie above ours as often as below, and none is exact while others are off.


_MIN_OPEN_TOKENS = 100
"""Fewer tokens may happen to hold none of the exact values of a mixture."""

_CERTAIN_PROBABILITY = 0.95
"""A token that our row expects so much tells nothing: every near distribution says the same."""

_MAX_NEAR_ERROR, _MAX_NEAR_TV = 0.25, 0.15
"""Values nearer than that to the target's, in nats at the median and in TV, count as those of what
was sampled unless something denies it; farther values must show it by the tokens."""

_MIN_EVIDENCE_AGAINST = math.log(100.0)
"""Tokens so much likelier by the target than as reported deny that they were drawn so."""

_MIN_SIDE_RATIO = 0.25
"""Values above and below ours balance for a sampled distribution; this ratio denies it."""

_EXACT_RATIO, _MIN_EXACT_SHARE = 0.02, 0.1
"""A value is exact if it is off by this part of what others are. Such a share of exact values in
requests that are off is a mixture: noise without an atom has a few percent."""

_FLOAT32_NATS = 1e-4  # float32, and engines' ways of computing it, move a log probability less
_MAX_LOG_RATIO = 3.0


def mismatch_reason(
    known: Floats,
    ours: Floats,
    sampled: Floats,
    nearest: Floats,
    requests: npt.NDArray[np.int64],
    fine: float,
    alpha: float,
) -> str | None:
    """Return why ``known`` values, float64 (n,), tell nothing of the tokens, or None.

    ``ours``: our log probabilities of their kind; ``sampled``: those of what was sampled;
    ``nearest``: distance of each value to the nearest of ours of any kind, in nats. ``requests``:
    int64 (n,), the request of each token. ``fine``: by how much a value may be off as written.
    ``alpha``: error at which far values must show that the tokens were drawn by them.
    """
    open_ = np.exp(ours) < _CERTAIN_PROBABILITY
    if int(open_.sum()) < _MIN_OPEN_TOKENS:
        return f"{open_.sum():,} uncertain tokens are too few to tell: it takes {_MIN_OPEN_TOKENS}"
    off = known - ours
    above = float((1.0 - np.exp(np.minimum(-off, 0.0))).mean())
    below = float(np.clip(np.expm1(np.minimum(-off, 1.0)), 0.0, 1.0).mean())
    if below < _MIN_SIDE_RATIO * above:
        return "they lie above the target's at nearly all tokens, which no distribution does"
    if _is_mixture(nearest, ours, open_, requests, fine):
        return "they are exact at some tokens and far off at others of the same request"
    lawful = np.allclose(ours, sampled)
    evidence = float(np.minimum(off, _MAX_LOG_RATIO).sum()) if lawful else 0.0
    if evidence < -_MIN_EVIDENCE_AGAINST:
        return "the tokens are likelier by the target than by what is reported of them"
    far = above > _MAX_NEAR_TV or float(np.median(np.abs(off[open_]))) > _MAX_NEAR_ERROR
    if far and evidence < -math.log(alpha):
        return "they are far off, and the tokens do not show that they were drawn by them"
    return None


def _is_mixture(
    nearest: Floats,
    ours: Floats,
    open_: npt.NDArray[np.bool_],
    requests: npt.NDArray[np.int64],
    fine: float,
) -> bool:
    """Whether requests that are off have a share of exact values, scaled by what a row leaves."""
    distance, owners = nearest[open_], requests[open_]
    size = distance / -np.expm1(ours[open_])
    away = distance > max(1.5 * fine, _FLOAT32_NATS)
    if not away.any():
        return False
    exact = (size <= _EXACT_RATIO * float(np.median(size[away]))) | (distance <= 1.5 * fine)
    all_exact = np.bincount(owners, exact) >= 0.95 * np.maximum(np.bincount(owners), 1)
    left = ~all_exact[owners]
    return bool(left.any() and exact[left].mean() > _MIN_EXACT_SHARE)


# Features of an emitted token: scores, sets, and places in an order, for each row.


SCORE_WIDTHS = {"-log p": SURPRISE_CAP, "min(1, q/p)": 1.0, "(q-p)/(q+p)": 2.0}
"""Range of each score."""


def order_names(proxy: bool) -> tuple[str, ...]:
    """Return the names of the orders that PITs are made in."""
    return ("token", "descending P", "q/p")[: 3 if proxy else 2]


def pit_draws(seed: int, stream: int, number: int, size: int) -> Floats:
    """Return the uniforms that randomise the PITs of a request's tokens, float64 (size,)."""
    key = np.array([seed, PIT], np.uint64)
    philox = np.random.Philox(key=key, counter=[0, 0, stream, number])
    return np.random.Generator(philox).random(size)


def add_sums(total: Any, part: Any) -> Any:
    """Return the sum of two sums, of which either may be None for nothing."""
    return part if total is None else total if part is None else total + part


def score_tables(again: Floats, q: Floats | None) -> dict[str, Floats]:
    """Return each score of each token, float64 (n, V), by name."""
    tables = {"-log p": stats.surprise(again)}
    if q is not None:
        tables |= {"min(1, q/p)": stats.accept(again, q), "(q-p)/(q+p)": stats.contrast(again, q)}
    return tables


def member_tables(again: Floats, q: Floats | None) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which tokens belong to each set, bool (n, V), by name."""
    members = {f"p < {level:g}": stats.rare_token(again, below=level) for level in RARE}
    if q is not None:
        members["q > p"] = stats.q_above_p(again, q)
    return members


def order_keys(again: Floats, q: Floats | None) -> dict[str, Floats]:
    """Return keys by whose ascent tokens are ordered, float64 (n, V), by the name of the order."""
    keys = {
        "token": stats.order_key("index", again),
        "descending P": stats.order_key("descending", again),
    }
    return keys if q is None else keys | {"q/p": stats.order_key("ratio", again, q)}


def centred_features(again: Floats, p: Floats, q: Floats | None) -> Mapping[str, Floats]:
    """Return by name what a test sums up, of a PIT its middle, less its mean under p, (n, V)."""
    scores = score_tables(again, q) | member_tables(again, q)
    tables: dict[str, Floats] = {f"score {n}": x.astype(float) for n, x in scores.items()}
    for name, key in order_keys(again, q).items():
        places = np.argsort(key, axis=1, kind="stable")
        ranked = np.take_along_axis(p, places, axis=1)
        middles = np.empty_like(p)
        np.put_along_axis(middles, places, np.cumsum(ranked, axis=1) - ranked / 2.0, axis=1)
        tables[f"PIT in {name} order"] = middles
    return {name: table - (p * table).sum(axis=1, keepdims=True) for name, table in tables.items()}


def cdf_distances(again: Floats, p: Floats, q: Floats | None, rows: Floats) -> dict[str, Floats]:
    """Return the sup distance of the CDFs of ``rows`` and p in each order, float64 (n,)."""
    distances = {}
    for name, key in order_keys(again, q).items():
        places = np.argsort(key, axis=1, kind="stable")
        off = np.cumsum(np.take_along_axis(rows - p, places, axis=1), axis=1)
        distances[f"PIT in {name} order"] = np.abs(off).max(axis=1)
    return distances


# Bets on tokens as they come, which you may look at, and which may end a run, at any time.
#
# Under the target a randomised PIT is uniform given all that came before, so a density of it is a
# fair bet. With the bets on rates and on rounded weights their mean is an e-process: it ever
# reaches 1 / alpha with probability alpha at most, however often you look (Ville's inequality).


LOOKS_TEST_NAME = "looks, bets on tokens as they come"

_TAIL_CUTS = (0.97, 0.9, 0.75, 0.5, 0.25, 0.1, 0.03)
"""Shares of the tokens, the first and the last in an order, that may come more often; large ones
win if the rest comes too rarely."""

_BET_SHARES = (0.7, 0.25, 0.08)
_BET_WEIGHTS = {"pits": 0.5, "rates": 0.2, "weights": 0.15, "variants": 0.15}


@dataclass(frozen=True, eq=False)
class BetSnapshot:
    """All bets after some ``tokens``; None where there are none yet."""

    tokens: int
    pits: stats.BetSums | None
    rates: stats.BetSums | None
    weights: stats.BetSums | None
    variants: stats.BetSums | None = None


def pit_bets(pits: Mapping[str, Floats]) -> stats.BetSums:
    """Bet on randomised PITs, float64 (n,) by the name of their order."""
    bets = []
    for order, u in pits.items():
        none = np.zeros(len(u))
        for tail in _TAIL_CUTS:
            most = np.full(len(u), 1.0 / tail)
            for side, inside in (("first", u < tail), ("last", u > 1.0 - tail)):
                name, ratios = f"{side} {tail:g} in {order} order", np.where(inside, most, none)
                bets.append(stats.bet_sums(name, ratios, none, most, shares=_BET_SHARES))
    return reduce(stats.BetSums.beside, bets)


def looks_log_evalue(seen: BetSnapshot, ball: float) -> float:
    """Return the log of the e-process, rows being off by TV ``ball`` on average."""
    parts = []
    for name, weight in _BET_WEIGHTS.items():
        sums: stats.BetSums | None = getattr(seen, name)
        value = 0.0
        if sums is not None:
            radius = max(ball, VARIANT_TOLERANCE) if name == "variants" else ball
            price = sums.n * np.log1p(radius * sums.widest)
            value = float(special.logsumexp(sums.log_wealth - price)) - math.log(len(sums.names))
        parts.append(math.log(weight) + value)
    return float(special.logsumexp(parts))


def looks_test(seen: Sequence[BetSnapshot], *, alpha: float, ball: float) -> stats.TestResult:
    """Test the target by the largest value that the e-process ever had, after any request."""
    largest = max(looks_log_evalue(snapshot, ball) for snapshot in seen)
    return _evalue_test(
        largest,
        name=LOOKS_TEST_NAME,
        statistic=largest,
        alpha=alpha,
        n=seen[-1].tokens,
        method=f"e-process, its largest value at {len(seen)} looks",
        deviation="any that a bet is on",
    )


def _evalue_test(log_evalue: float, **fields: Any) -> stats.TestResult:
    return stats.TestResult(
        log_pvalue=min(0.0, -log_evalue), df=None, min_detectable=math.inf, **fields
    )


def first_crossing(seen: Sequence[BetSnapshot], *, alpha: float, ball: float) -> int | None:
    """Return after how many tokens the e-process says FAIL; None if it never does."""
    needed = math.log(1.0 / alpha)
    return next((one.tokens for one in seen if looks_log_evalue(one, ball) > needed), None)


# Repeated prompts: is each answer drawn, or does it come from a cache?


COPY_TOKENS = 32  # a request is a copy of another if they share so many first tokens
_COPY_STAKE = 1e-3  # bet on each request being a copy


class RepeatedAnswers:
    """First tokens of answers, by the prompt and the law of their request.

    ``compared``: requests whose prompt was asked before. :meth:`copies` gives the chance of those
    that begin as an earlier answer did.
    """

    def __init__(self) -> None:
        self.compared = 0
        self._known: dict[tuple[tuple[int, ...], Law | None], dict[tuple[int, ...], Floats]] = {}
        self._copied: list[tuple[Mapping[tuple[int, ...], Floats], int]] = []

    def add(self, request: Request, p: Floats) -> None:
        """Count a request, whose tokens have the rows p, float64 (n, V)."""
        head = request.tokens[:COPY_TOKENS]
        known = self._known.setdefault((request.prompt, request.law), {})
        if known:
            self.compared += 1
            if head in known:
                self._copied.append((known, len(known)))
        known.setdefault(head, p[np.arange(len(head)), np.array(head)])

    def copies(self, ball: float) -> Iterator[float]:
        """Yield the log chance of each copy, if each probability may be too small by ``ball``."""
        for known, count in self._copied:
            logs = [log_chance(chances, ball) for chances in list(known.values())[:count]]
            yield min(float(np.logaddexp.reduce(logs)), 0.0)

    @property
    def count(self) -> int:
        """Copies so far."""
        return len(self._copied)


def log_chance(probabilities: Floats, ball: float) -> float:
    """Return the log of a product of probabilities that may each be too small by ``ball``."""
    return float(np.log(np.minimum(probabilities + ball, 1.0)).sum())


def copies_log_evalue(compared: int, chances: Sequence[float]) -> float:
    """Return the value of bets on copies; ``chances``: logs, of the copies among ``compared``."""
    total = (compared - len(chances)) * math.log1p(-_COPY_STAKE)
    for chance in chances:
        total += float(np.logaddexp(math.log1p(-_COPY_STAKE), math.log(_COPY_STAKE) - chance))
    return total


# The engine's own log probabilities: which kind they are, and how far its rows are from ours.
#
# A token that the engine drew from its row P', and for which it reports log P', gives a value of
# (1 - P / P')+, whose mean under P' is the TV distance from our row P. So the values are averaged,
# and bets are made that the mean is above what rounding explains: a few tokens show wrong weights,
# where the tokens alone take thousands.


REPORTED_TEST_NAME = "reported log probabilities"

VALID_KINDS = (
    "processed",
    "raw",
    "by temperature alone",
    "before temperature",
    "before truncation",
    "after top-k",
    "after top-p",
    "after top-k at temperature 1",
)
"""What a right server reports: what is sampled, or the target before some of its parameters."""

_KIND_WORDS = {
    "processed": "of the distribution that is sampled",
    "raw": "of the target before temperature and truncation",
    "by temperature alone": "of the target by temperature, before truncation",
    "before temperature": "of the distribution before temperature and truncation, with all else",
    "before truncation": "of the distribution before truncation, with all else",
    "after top-k": "of the distribution after top-k, before all other truncation",
    "after top-p": "of the distribution after top-p, without all other truncation",
    "after top-k at temperature 1": "of the distribution after top-k, without the temperature",
    "draft": "of the draft, not of the target",
    "row before": "of the token under the row before its own: stale by a row",
    "row after": "of the token under the row after its own: ahead by a row",
    "token before": "those of the token before: off by a place",
}
_CLEAR_ERROR_RATIO = 0.25
"""A wrong kind is named if its median error is so many times that of the best right one."""

_MAX_MEDIAN_ERROR = 0.5
"""Nats at the median, above which values fit nothing: they are no log probabilities of these rows
(plain probabilities, other logarithms, sums); weights that are so far off show in the tokens."""

_BOUND_ERROR = 1e-3

_CLEAR_STATED_RATIO = 20.0
"""A stated kind is denied if its median error is so many times that of another."""

_ROUNDED = 1e-5  # what is written more coarsely is not float32

_MIN_REQUEST_TOKENS, _MIN_EXACT_REQUESTS, _NEAR_LIMIT_RATIO = 16, 3, 10.0
"""Values that tell how far a request is off; exact requests that are no luck; and how many times
our own error an exact one may be off, which is far below what bfloat16 moves."""


@dataclass
class ReportedSums:
    """The reported values of requests, and ours of each kind, by both scorings."""

    values: list[Floats] = field(default_factory=list)
    ours: list[Mapping[str, Floats]] = field(default_factory=list)
    again: list[Mapping[str, Floats]] = field(default_factory=list)
    allowed: float = 0.0
    stated: set[str | None] = field(default_factory=set)

    def add(self, scored: ScoredRequest) -> None:
        """Count a request, if it has any."""
        if scored.request.logprobs is not None and scored.stated:
            values = np.full(len(scored.request.tokens), np.nan)
            logprobs = np.array(scored.request.logprobs[: len(values)], float)
            values[: len(logprobs)] = logprobs
            self.stated.add(scored.request.logprobs_mode)
            self.values.append(values)
            self.ours.append(scored.stated)
            self.again.append(scored.stated_again)

    def identify(self, alpha: float) -> "LogprobKind | None":
        """Return which kind the values are, by tests at ``alpha``; None if there are none."""
        values = np.concatenate([np.zeros(0), *self.values])
        there = np.isfinite(values)
        if not there.any():
            return None
        known = values[there]
        ours = {n: np.concatenate([part[n] for part in self.ours])[there] for n in self.ours[0]}
        errors = {name: _median_error(x - known) for name, x in ours.items()}
        right = min(VALID_KINDS, key=lambda name: errors[name])
        wrong = min((n for n in errors if n not in VALID_KINDS), key=lambda name: errors[name])
        unit = logprob_resolution(known.tolist())
        kind = right
        if errors[wrong] < _CLEAR_ERROR_RATIO * errors[right] and errors[right] > 10 * unit + 1e-3:
            kind = wrong
        again = np.concatenate([part[right] for part in self.again])[there]
        off = _positive_excess(ours[right], known)
        value = float(_positive_excess(ours[right], again).mean())
        ends = np.cumsum([int(np.isfinite(part).sum()) for part in self.values])[:-1]
        parts = [part for part in np.split(off, ends) if len(part) >= _MIN_REQUEST_TOKENS]
        owners = np.repeat(np.arange(len(self.values)), [len(part) for part in self.values])[there]
        own_kinds = [k for k in ours if k in (*VALID_KINDS, "draft")]
        nearest = np.min([np.abs(ours[k] - known) for k in own_kinds], axis=0)
        why = mismatch_reason(known, ours[right], ours["processed"], nearest, owners, unit, alpha)
        each = tuple(float(part.mean()) for part in parts)
        constant = float(known[0]) if len(known) > 1 and np.ptp(known) == 0.0 else None
        (stated,) = self.stated if len(self.stated) == 1 else (None,)
        far = stated in errors and errors[stated] > max(
            _CLEAR_STATED_RATIO * errors[kind], 10 * unit + 1e-2
        )
        denied = stated if far and kind in VALID_KINDS and constant is None else None
        return LogprobKind(kind, errors[kind], off, value + unit, each, why, unit, constant, denied)


@dataclass(frozen=True, eq=False)
class LogprobKind:
    """Which ``kind`` reported values are, and how far off.

    ``error``: median distance from ours, in nats. ``off``: float64 (n,), (1 - P / P')+ of each
    token. ``rounding``: mean of what computing ours again, and writing them down, moves. ``each``:
    means over the longer requests. ``doubt``: why values that are off are no evidence on the
    tokens, if so. ``unit``: by how much they may be off as written. ``constant``: the one value
    that all are, if so. ``denied``: the kind that answers state, if they are clearly another.
    """

    kind: str
    error: float
    off: Floats
    rounding: float
    each: tuple[float, ...] = ()
    doubt: str | None = None
    unit: float = 0.0
    constant: float | None = None
    denied: str | None = None

    def exact(self, ball: float) -> int:
        """Return how many requests are off by no more than ours, if others are beyond ``ball``.

        A coarser precision moves every request, so it cannot explain a run with exact ones.
        """
        limit = _NEAR_LIMIT_RATIO * self.limit(ball)
        count = sum(mean <= limit for mean in self.each)
        return count if _MIN_EXACT_REQUESTS <= count < len(self.each) else 0

    @property
    def fits(self) -> bool:
        """Whether they are of the target at all, so that its weights can be judged by them."""
        return self.kind in VALID_KINDS and self.error <= _MAX_MEDIAN_ERROR

    @property
    def tells(self) -> bool:
        """Whether values that are off count against the tokens."""
        return self.fits and self.doubt is None

    @property
    def tv(self) -> float:
        """Mean TV distance of the engine's rows from ours, as far as reported values tell."""
        return float(self.off.mean())

    @property
    def upper(self) -> float:
        """A bound on that mean, at error ``_BOUND_ERROR``."""
        n = len(self.off)
        if n < 2:
            return 1.0
        _, high = empirical_bernstein(
            self.tv, float(self.off.var(ddof=1)), n, low=0.0, high=1.0, error=2 * _BOUND_ERROR
        )
        return high

    def test(self, alpha: float, ball: float) -> stats.TestResult:
        """Test that the engine's rows are within ``ball`` of ours on average."""
        return stats.capped_mean_test(
            self.off, limit=self.limit(ball), alpha=alpha, name=REPORTED_TEST_NAME
        )

    def limit(self, ball: float) -> float:
        """Return what the mean may be: the ball, or what writing the values down moves."""
        return min(max(ball, self.rounding), 0.999)

    def words(self) -> str:
        """Return their kind in words."""
        if self.constant is not None and not self.tells:
            return (
                f"fit nothing here: all are {self.constant:.1f}, a placeholder and no probability "
                f"of what was sampled"
            )
        if self.kind in VALID_KINDS and not self.fits:
            return f"fit nothing here: off by {self.error:.2g} nats at the median"
        rounded = f", rounded by up to {self.unit:.1g}" if self.unit > _ROUNDED else ""
        return f"are {_KIND_WORDS[self.kind]}{rounded}"

    def finding(self) -> str | None:
        """Say that they are not what answers state, if so."""
        if self.denied is None:
            return None
        return (
            f"answers: their log probabilities are stated to be {_KIND_WORDS[self.denied]}, and "
            f"{self.words()}"
        )


def _median_error(errors: Floats) -> float:
    """Return the median of absolute errors, infinity if none is known."""
    known = errors[~np.isnan(errors)]
    return float(np.median(np.abs(known))) if len(known) else math.inf


def _positive_excess(ours: Floats, theirs: Floats) -> Floats:
    return np.clip(1.0 - np.exp(np.minimum(ours - theirs, 0.0)), 0.0, 1.0)


# Where a run fails: the tokens that the target expected least, and their positions.


MAX_WORST_TOKENS = 10
_CONTEXT_TOKENS = 6  # of the text before and after
_MIN_PLACE_TOKENS = 20  # tokens at a place that is reported
_GROUP_STARTS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Positions in a request at which a group begins."""


class _TokenDeviation(NamedTuple):
    """How far a token is off; in order, the worst first, then by its place."""

    chance: float
    gap: float
    request: int
    position: int
    p: float
    rank: int
    expected: int
    expected_p: float


class WorstTokens:
    """The ``MAX_WORST_TOKENS`` tokens with the smallest chance under their rows.

    The chance of a token is that of it and all that are no likelier. It is 0 for what truncation
    cuts off; of such tokens the one furthest outside is the worst.
    """

    def __init__(self) -> None:
        self._worst: list[_TokenDeviation] = []

    def add(self, number: int, p: Floats, tokens: npt.NDArray[np.int64], gap: Floats) -> None:
        """Look at the tokens of a request; ``gap``: how far each is outside the support."""
        rows = np.arange(len(tokens))
        probabilities = p[rows, tokens]
        chances = np.where(p <= probabilities[:, None], p, 0.0).sum(axis=1)
        for i in np.lexsort((-gap, chances))[:MAX_WORST_TOKENS].tolist():
            top = int(p[i].argmax())
            chance, p_token, p_top = float(chances[i]), float(probabilities[i]), float(p[i, top])
            rank = 1 + int((p[i] > p_token).sum())
            off = _TokenDeviation(chance, -float(gap[i]), number, i, p_token, rank, top, p_top)
            self._worst.append(off)
        self._worst = sorted(self._worst)[:MAX_WORST_TOKENS]

    def documents(
        self, requests: Sequence[Request], decode: Callable[[Sequence[int]], str]
    ) -> tuple[doc.WorstToken, ...]:
        """Return them with their text, the worst first; ``decode``: a tokenizer's."""
        worst_tokens = []
        for off in self._worst:
            request, at = requests[off.request], off.position
            slot = -1 if request.slots is None else request.slots[at]
            fields = off._asdict()
            del fields["gap"]
            worst_tokens.append(
                doc.WorstToken(
                    **fields,
                    slot=None if slot < 0 else slot,
                    token=request.tokens[at],
                    text=decode([request.tokens[at]]),
                    before=decode((*request.prompt, *request.tokens[:at])[-_CONTEXT_TOKENS:]),
                    after=decode(request.tokens[at + 1 : at + 1 + _CONTEXT_TOKENS]),
                    expected_text=decode([off.expected]),
                )
            )
        return tuple(worst_tokens)


def deviation_by_position(
    name: str, deviations: Sequence[Floats], requests: Sequence[Request]
) -> tuple[doc.AtPlace, ...]:
    """Return how far the mean ``name`` is off by position in the request, and in a known draft.

    ``deviations``: for each request float64 (2, n), each token's value less its mean under its
    row, and the variance there.
    """
    lengths = [part.shape[1] for part in deviations]
    positions = np.concatenate([np.arange(n) for n in lengths])
    off, variance = np.concatenate(deviations, axis=1)
    places = []

    def add(of: doc.PlaceOf, first: int, last: int, inside: npt.NDArray[np.bool_]) -> None:
        total = float(variance[inside].sum())
        if inside.sum() >= _MIN_PLACE_TOKENS and total > 0.0:
            places.append(
                doc.AtPlace(
                    of=of,
                    first=first,
                    last=last,
                    tokens=int(inside.sum()),
                    name=name,
                    mean=float(off[inside].mean()),
                    sigmas=float(off[inside].sum()) / math.sqrt(total),
                )
            )

    groups = np.searchsorted(_GROUP_STARTS, positions, side="right") - 1
    lasts = (*(start - 1 for start in _GROUP_STARTS[1:]), int(positions.max(initial=0)))
    for group, (first, last) in enumerate(zip(_GROUP_STARTS, lasts, strict=True)):
        add("request", first, last, groups == group)
    if all(request.slots is None for request in requests):
        return tuple(places)
    both = list(zip(requests, lengths, strict=True))
    slots = np.array([slot for request, n in both for slot in (request.slots or (-1,) * n)[:n]])
    for slot in np.unique(slots[slots >= 0]).tolist():
        add("draft", slot, slot, slots == slot)
    after = np.concatenate([after_rejection(request)[:n] for request, n in both])
    known = slots >= 0
    for place, inside in enumerate((~after & known, after & known)):
        add("rejection", place, place, inside)
    return tuple(places)


def after_rejection(request: Request) -> npt.NDArray[np.bool_]:
    """Return which tokens come after the request's first rejected draft, bool (n,).

    A block that emits fewer tokens than the longest of the request rejected a draft; the token that
    replaces it was judged before. A first block of one token is the prompt's own, without a draft.
    """
    blocks = drafted_blocks(request)
    longest = max((block.stop - block.start for block in blocks), default=0)
    after = np.zeros(len(request.tokens), np.bool_)
    for block in blocks[:-1]:  # the last may be cut by a limit
        if block.stop - block.start < longest:
            after[block.stop :] = True
            break
    return after


def drafted_blocks(request: Request) -> list[slice]:
    """Return which tokens each verification of a draft emitted, by their places in drafts.

    Tokens at no place, -1, had no draft, but for one right after a draft that was kept whole: that
    is its bonus token.
    """
    n = len(request.tokens)
    slots = request.slots or (-1,) * n
    last = max(slots)

    def goes_on(before: int, slot: int) -> bool:
        return slot == before + 1 > 0 or (slot == -1 and before == last >= 0)

    begins = [i for i in range(n) if i == 0 or not goes_on(slots[i - 1], slots[i])]
    blocks = [slice(begin, end) for begin, end in zip(begins, (*begins[1:], n), strict=True)]
    if blocks[0].stop == 1:  # the prompt's own token
        del blocks[0]
    return [block for block in blocks if slots[block.start] >= 0]


# All evidence of a run: randomised PITs in the orders, scores, neighbours.


class OutputEvidence:
    """Sums over requests, in their order; ``add`` each with its rows.

    ``pits``: for each request float64 (orders, n), in the orders of ``orders``; one uniform
    randomises all of a token's. ``places``: for each request float64 (orders, 2, n), the ends of
    their intervals. ``scores``, ``indicators``: by name. ``deviations``: for each test of a mean,
    by its name, float64 (2, n) a request: the token's value less its mean under its row, and the
    variance there. ``spreads``: float64 (n,) a request, the standard deviation of a row's logits.
    ``rates``: bets on each token's rate; ``weights``: bets on rounded weights, and ``variants`` on
    other ways to sample, over the first tokens; ``snapshots``: all bets after each request.
    ``reported``: the engine's own log probabilities. ``repeats``: answers to repeated prompts.
    ``same``: whether a token is that of the request before at the same place. ``copies``: for each
    pair of neighbours that begin alike the probabilities of those tokens, float64 (k,), of
    ``neighbours`` that were compared.
    ``first_drafts``: of each request, what its tokens say of a draft, if there is one.
    ``distance``: sum of the TVs between the two scorings, ``worst`` the largest. ``tokens``: those
    that the target expected least.
    """

    def __init__(self, seed: int, proxy: bool) -> None:
        self.proxy, self.orders = proxy, order_names(proxy)
        self.pits: list[Floats] = []
        self.places: list[Floats] = []
        self.scores: dict[str, stats.ScoreSums] = {}
        self.indicators: dict[str, stats.IndicatorSums] = {}
        self.deviations: dict[str, list[Floats]] = {}
        self.spreads: list[Floats] = []
        self.rates = stats.LearnedRates()
        self.weights: stats.BetSums | None = None
        self.variants: stats.BetSums | None = None
        self.snapshots: list[BetSnapshot] = []
        self.tokens, self.reported, self.repeats = WorstTokens(), ReportedSums(), RepeatedAnswers()
        self.same: stats.IndicatorSums | None = None
        self.copies: list[Floats] = []
        self.first_drafts: list[FirstDrafts] = []
        self.neighbours = self.n = 0
        self.distance = self.worst = self._shift = 0.0
        self._seed, self._before = seed, np.zeros(0, np.int64)
        self._gaps: list[Floats] = []
        self._bets: stats.BetSums | None = None

    def add(self, scored: ScoredRequest) -> None:
        """Count a request."""
        tokens = np.array(scored.request.tokens)
        self.n += len(tokens)
        self._gaps.append(scored.gap[scored.gap > 0.0])
        self.allow(float(scored.shift.max()))
        self.reported.add(scored)
        self.repeats.add(scored.request, scored.p)
        off = tv_distances(scored.p, scored.p_again)
        self.distance += float(off.sum())
        self.worst = max(self.worst, float(off.max()))
        self.tokens.add(scored.number, scored.p, tokens, scored.gap)
        self._order(scored, tokens)
        self._score(scored, tokens)
        if scored.q is not None:
            self.first_drafts.append(FirstDrafts.of(scored.p, scored.q))
        self.rates.add(scored.p, tokens)
        self.spreads.append(logit_spread(scored.p_again))
        if scored.number:
            self._compare(scored.p, tokens)
        self._before = tokens
        bets = pit_bets(dict(zip(self.orders, self.pits[-1], strict=True)))
        self._bets = add_sums(self._bets, bets)
        if (done := self.n - len(tokens)) < VARIANT_TOKENS:
            prompt = scored.request.prompt
            ratios = variant_ratios(scored.law, scored.p, scored.logits, prompt, tokens.tolist())
            self.variants = add_sums(self.variants, variant_bets(ratios, done))
        snapshot = BetSnapshot(self.n, self._bets, self.rates.sums, self.weights, self.variants)
        self.snapshots.append(snapshot)

    def allow(self, shift: float) -> None:
        """Note that a token's log probability moved by ``shift``, for example by precision."""
        self._shift = max(self._shift, shift)

    @property
    def margin(self) -> float:
        """How far two logits may be off from each other: twice the rounding seen, or more."""
        return max(LOGIT_MARGIN, 2.0 * self._shift)

    @property
    def near(self) -> int:
        """Tokens that truncation cuts off, within the margin."""
        return sum(map(len, self._gaps)) - self.unsupported

    @property
    def unsupported(self) -> int:
        """Tokens that truncation cuts off, beyond the margin."""
        return self.beyond(self.margin)

    def beyond(self, margin: float) -> int:
        """Return how many tokens are cut off if two logits may be off by ``margin``."""
        return sum(int((gaps > margin).sum()) for gaps in self._gaps)

    def _order(self, scored: ScoredRequest, tokens: npt.NDArray[np.int64]) -> None:
        v = pit_draws(self._seed, 1, scored.number, len(tokens))
        keys = order_keys(scored.p_again, scored.q)
        places = np.stack([stats.pit_bounds(scored.p, order, tokens) for order in keys.values()])
        pits = np.minimum(places[:, 0] + v * (places[:, 1] - places[:, 0]), 1.0)
        self.places.append(places)
        self.pits.append(pits)
        for name, row in zip(keys, pits, strict=True):
            self._note(f"PIT in {name} order", row - 0.5, np.full(len(row), 1.0 / 12.0))

    def _score(self, scored: ScoredRequest, tokens: npt.NDArray[np.int64]) -> None:
        p, again, q = scored.p, scored.p_again, scored.q
        rows = np.arange(len(tokens))
        for name, table in score_tables(again, q).items():
            moments = stats.score_moments(p, table)
            values = table[rows, tokens]
            sums = stats.score_sums(values, **vars(moments), width=SCORE_WIDTHS[name])
            self.scores[name] = add_sums(self.scores.get(name), sums)
            self._note(f"score {name}", values - moments.mean, moments.variance)
        for name, member in member_tables(again, q).items():
            chance = np.clip((p * member).sum(axis=1), 0.0, 1.0)
            bits = stats.indicator_sums(member[rows, tokens], chance)
            self.indicators[name] = add_sums(self.indicators.get(name), bits)
            self._note(f"score {name}", member[rows, tokens] - chance, chance * (1.0 - chance))

    def _note(self, name: str, off: Floats, variance: Floats) -> None:
        self.deviations.setdefault(name, []).append(np.stack([off, variance]))

    def _compare(self, p: Floats, tokens: npt.NDArray[np.int64]) -> None:
        """Compare a request with the one before, whose tokens have a chance under its rows too."""
        before = self._before
        k = min(len(before), len(tokens))
        chances = np.minimum(p[np.arange(k), before[:k]], 1.0)
        self.same = add_sums(self.same, stats.indicator_sums(tokens[:k] == before[:k], chances))
        self.neighbours += 1
        head = min(len(before), COPY_TOKENS)
        if np.array_equal(tokens[:head], before[:head]):
            self.copies.append(chances[:head])


def logit_spread(rows: Floats) -> Floats:
    """Return the standard deviation of each row's logits over its kept tokens, float64 (n,)."""
    logs = stats.surprise(rows)
    support = rows > 0.0
    count = support.sum(axis=1)
    mean = np.where(support, logs, 0.0).sum(axis=1) / count
    squares = np.where(support, (logs - mean[:, None]) ** 2, 0.0)
    return np.asarray(np.sqrt(squares.sum(axis=1) / count))


# Tests of tokens that follow each other, and of requests that share a stream or are copies.


_PAIR_LAGS = {"in a request": None, "neighbouring requests": 1, "requests two apart": 2}


def pair_tests(evidence: OutputEvidence, alpha: float, ball: float) -> list[stats.TestResult]:
    """Return the tests that have pairs, at ``alpha`` in all."""
    each = alpha / (4 * len(_PAIR_LAGS) + 3)
    tests = []
    for words, lag in _PAIR_LAGS.items():
        for order in (0, 1):
            where = f"{words}, {evidence.orders[order]} order"
            pits = _lagged_pairs([pits[order] for pits in evidence.pits], lag)
            if pits is not None and pits[0].shape[-1] >= MIN_PAIRS:
                # Twice the ball, as the rows that are off may be those of extreme PITs.
                radius, name = min(2 * ball, 0.999), f"pairs, correlation {where}"
                sums = stats.pair_sums(*pits)
                tests.append(stats.pit_correlation(sums, alpha=each, ball=radius, name=name))
            places = _lagged_pairs([places[order] for places in evidence.places], lag)
            if places is not None:
                name = f"pairs, repeated stream {where}"
                off = "share of tokens drawn with a uniform that was used before"
                bets = stats.stream_sums(*places)
                tests.append(stats.bet_test(bets, alpha=each, ball=ball, name=name, deviation=off))
    if evidence.same is not None and evidence.same.variance > 0.0:
        name = "pairs, same token as the request before"
        tests.append(stats.indicator_test(evidence.same, alpha=each, ball=ball, name=name))
    if evidence.neighbours:
        chances = [log_chance(copy, ball) for copy in evidence.copies]
        tests.append(_copies_test("the request before", evidence.neighbours, chances, each))
    if evidence.repeats.compared:
        chances = list(evidence.repeats.copies(ball))
        of = "an earlier answer to the prompt"
        tests.append(_copies_test(of, evidence.repeats.compared, chances, each))
    return tests


def skipped_tests(evidence: OutputEvidence) -> Iterator[str]:
    """Yield the tests that had too few pairs, in words."""
    for words, lag in _PAIR_LAGS.items():
        pairs = _lagged_pairs([pits[0] for pits in evidence.pits], lag)
        n = 0 if pairs is None else pairs[0].shape[-1]
        if n < MIN_PAIRS:
            rest = " and of a repeated stream" if n == 0 else ""
            yield f"test of correlation{rest} ({words}): {n:,} pairs, it takes {MIN_PAIRS:,}"
    if not evidence.neighbours:
        yield "tests against the request before: there is one request"


def _lagged_pairs(parts: Sequence[Floats], lag: int | None) -> tuple[Floats, Floats] | None:
    """Pairs within each request, or at the same place of requests ``lag`` apart; (..., n) each."""
    pairs = [(part[..., :-1], part[..., 1:]) for part in parts]
    if lag is not None:
        pairs = [
            (a[..., : b.shape[-1]], b[..., : a.shape[-1]])
            for a, b in zip(parts, parts[lag:], strict=False)
        ]
    if sum(first.shape[-1] for first, _ in pairs) == 0:
        return None
    first, second = (np.concatenate(side, axis=-1) for side in zip(*pairs, strict=True))
    return first, second


def _copies_test(
    of: str, compared: int, chances: Sequence[float], alpha: float
) -> stats.TestResult:
    return _evalue_test(
        copies_log_evalue(compared, chances),
        name=f"pairs, copies of {of}",
        statistic=float(len(chances)),
        alpha=alpha,
        n=compared,
        method=f"e-value of requests that repeat the first {COPY_TOKENS} tokens of {of}",
        deviation="copies",
    )


# Bets that the engine's weights were rounded.


WEIGHT_TOKENS = 8_192  # scored with rounded weights: enough to show four bits, at a bounded cost
SCREENING_TOKENS = 1_024  # first tokens, on which all roundings are bet on
MAX_SURVIVING_FORMATS = 3  # roundings that are bet on after that: those that won most
_MIX_STRENGTHS = (1.0, 0.3)  # of the rounded weights' distribution in a mixture with the target's


def format_ratios(
    one: ScoredRequest, logits: NDArray[np.float32], pair: TransformerPair
) -> tuple[Floats, Floats, Floats]:
    """Return the rows of rounded weights and their ratios to the target's, float64 (n, V).

    Last come the ratio of the emitted token, and the least and largest of its row, float64 (3, n).
    """
    rows, tokens = one.request.rows(logits, pair), np.array(one.request.tokens)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.where(rows == one.p, 1.0, rows / one.p)
    emitted = table[np.arange(len(tokens)), tokens]
    return rows, table, np.stack([emitted, table.min(axis=1), table.max(axis=1)])


@dataclass
class ExpectedGains:
    """What tokens of one format would win for its bets, summed over the contexts of ``n`` tokens.

    The target's rows and the format's are both known, so this takes no such tokens. ``won``,
    ``squares``: sums of the mean and mean square of a token's log factor under the format,
    float64 (S,), by share; ``widest``: the largest ratio less the least; ``tv``: sum of distances.
    """

    n: int = 0
    tv: float = 0.0
    widest: float = 0.0
    won: Floats = field(default_factory=lambda: np.zeros(len(_MIX_STRENGTHS)))
    squares: Floats = field(default_factory=lambda: np.zeros(len(_MIX_STRENGTHS)))

    def add(self, p: Floats, rows: Floats, table: Floats) -> None:
        """Count contexts with the target's rows and the format's, float64 (n, V), and ratios."""
        capped = np.minimum(table, stats.RATIO_CAP)
        for i, share in enumerate(_MIX_STRENGTHS):
            # A token that the format cannot emit loses nothing. The factor is not split into 1 and
            # the rest, which would be -1 for a ratio below 1e-16.
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
        for share, won, squares in zip(_MIX_STRENGTHS, self.won, self.squares, strict=True):
            mean = float(won) / self.n
            variance = max(float(squares) / self.n - mean**2, 0.0)
            price = float(np.log1p(ball * share * self.widest))
            known = {"mean": mean, "variance": variance, "price": price}
            powers.append(stats.bet_power(tokens, alpha=alpha, bets=bets, **known))
            samples = stats.bet_samples(alpha=alpha, bets=bets, **known)
            needed += [] if samples is None or samples > WEIGHT_TOKENS else [samples]
        return doc.FormatPower(
            name=name, tv=self.tv / self.n, power=max(powers), needed=min(needed, default=None)
        )


class WeightBets:
    """Bets on ``roundings`` by their names, token after token; most of them end early.

    The number of the token fixes where bets end, inside a request or not, and which go on is known
    by then: whether a token counts must not depend on what it turned out to be.
    """

    def __init__(self, roundings: Mapping[str, WeightFormat]) -> None:
        self.names, self.n = tuple(roundings), 0
        self._left = dict(roundings)
        self._wealth = np.zeros((len(self.names), len(_MIX_STRENGTHS)))
        self._gains = {name: ExpectedGains() for name in self.names}

    def wanted(self) -> Mapping[str, WeightFormat]:
        """Return the roundings that the next token is to be scored with."""
        return self._left if self.n < WEIGHT_TOKENS else {}

    def scored(self, one: ScoredRequest, pair: TransformerPair) -> stats.BetSums | None:
        """Bet on a request by the roundings that it was scored with; None if there is none."""
        if not one.rounded:
            return None
        ratios = {}
        for name, logits in one.rounded.items():
            rows, table, ratios[name] = format_ratios(one, logits, pair)
            self._gains[name].add(one.p, rows, table)
        return self.bet(ratios)

    def powers(self, alpha: float, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which weights the tokens so far would have shown; unchanged ones have no entry."""
        bets = len(self.names) * len(_MIX_STRENGTHS)
        return tuple(
            gains.document(name, self.n, alpha, ball, bets)
            for name, gains in self._gains.items()
            if gains.n and gains.tv > 0.0
        )

    def bet(self, ratios: Mapping[str, Floats]) -> stats.BetSums | None:
        """Bet on the next tokens by ratios, float64 (3, n), of those that are ``wanted`` at least.

        A ratio is of the emitted token's probabilities, then the least and the largest of its row.
        Returns the sums of all bets over the tokens that count; None if none does.
        """
        n, before, start = next(iter(ratios.values())).shape[1], self.n, 0
        total: stats.BetSums | None = None
        for limit in (min(SCREENING_TOKENS, WEIGHT_TOKENS), WEIGHT_TOKENS):
            end = int(np.clip(limit - before, start, n))
            if end > start:
                total = add_sums(total, self._part({k: x[:, start:end] for k, x in ratios.items()}))
                start = end
        return total

    def _part(self, ratios: Mapping[str, Floats]) -> stats.BetSums:
        n = next(iter(ratios.values())).shape[1]
        bets = []
        for i, name in enumerate(self.names):
            # A bet that has ended wins nothing and loses nothing.
            seen = ratios[name] if name in self._left else np.ones((3, n))
            bets.append(stats.bet_sums(name, *seen, shares=_MIX_STRENGTHS))
            self._wealth[i] += bets[-1].log_wealth
        self.n += n
        if self.n == SCREENING_TOKENS:
            best = np.argsort(-self._wealth.max(axis=1), kind="stable")[:MAX_SURVIVING_FORMATS]
            self._left = {self.names[i]: self._left[self.names[i]] for i in best.tolist()}
        return reduce(stats.BetSums.beside, bets)
