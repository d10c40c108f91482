"""The evidence of rescored tokens: PITs, scores, bets, reported log probabilities, worst tokens."""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import special

from simverify import results as doc
from simverify import stats
from simverify.arrays import Floats
from simverify.models.rounding import WeightFormat
from simverify.models.transformer import TransformerPair
from simverify.served.requests import Request, logprob_resolution
from simverify.served.rescore import LOGIT_MARGIN, ScoredRequest, tv_distances
from simverify.simulators.kernels.philox import PIT
from simverify.simulators.kernels.row_sums import RARE
from simverify.stats.means import empirical_bernstein
from simverify.stats.pits import MIN_PAIRS
from simverify.stats.scores import SURPRISE_CAP

if TYPE_CHECKING:
    from simverify.served.distribution import Law


# Reported log probabilities: can they be of the law that the tokens were drawn from?
#
# Only then do they say something of the tokens. A right server may report anything: its draft's
# values for drafts that were accepted, other logarithms, rows of another place. The tokens of a law
# that is reported are likelier by it than by any other on average, lie above ours as often as
# below, and are exact at none where they are off at the others.


_MIN_OPEN_TOKENS = 100
"""Tokens that tell: fewer may by luck hold none of the exact values of a mixture."""

_CERTAIN_PROBABILITY = 0.95
"""A token that our row expects so much tells nothing: every law that is near says the same."""

_MAX_NEAR_ERROR, _MAX_NEAR_TV = 0.25, 0.15
"""Values nearer than that to the target's, in nats at the median and in TV, are presumed to be of
what was sampled unless something denies it; farther ones must show it by the tokens."""

_MIN_EVIDENCE_AGAINST = math.log(100.0)
"""Tokens that much likelier by the target than as reported deny that they were drawn so."""

_MIN_SIDE_RATIO = 0.25
"""A law's values above and below ours weigh alike; these parts of each other deny it."""

_EXACT_RATIO, _MIN_EXACT_SHARE = 0.02, 0.1
"""A value is exact that is off by so little of what others are; such a share of them, in requests
that are off, is a mixture: noise of any shape without an atom has a few percent."""

_FLOAT32_NATS = 1e-4
"""Nats that float32 moves a log probability by at most, engines' ways of computing it included."""

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
    """Return why ``known`` values tell nothing of the tokens, or None.

    Parameters
    ----------
    known, ours, sampled : float64 (n,)
        Reported log probabilities; ours of the kind that they are of; ours of the sampled law.
    nearest : float64 (n,)
        Distance of each value from the nearest of ours of any kind, in nats.
    requests : int64 (n,)
        The request of each token.
    fine : float
        By how much a value may be off as it is written.
    alpha : float
        Error at which far values must show that the tokens were drawn by them.
    """
    open_ = np.exp(ours) < _CERTAIN_PROBABILITY
    if int(open_.sum()) < _MIN_OPEN_TOKENS:
        return (
            f"{open_.sum():,} tokens that are open are too few to tell: {_MIN_OPEN_TOKENS} are "
            "needed"
        )
    off = known - ours
    above = float((1.0 - np.exp(np.minimum(-off, 0.0))).mean())
    below = float(np.clip(np.expm1(np.minimum(-off, 1.0)), 0.0, 1.0).mean())
    if below < _MIN_SIDE_RATIO * above:
        return "they lie above the target's at nearly all tokens, which those of no law do"
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
    size = nearest[open_] / -np.expm1(ours[open_])
    owners = requests[open_]
    away = nearest[open_] > max(1.5 * fine, _FLOAT32_NATS)
    if not away.any():
        return False
    upper = float(np.median(size[away]))
    exact = (size <= _EXACT_RATIO * upper) | (nearest[open_] <= 1.5 * fine)
    all_exact = np.bincount(owners, exact) >= 0.95 * np.maximum(np.bincount(owners), 1)
    left = ~all_exact[owners]
    return bool(left.any() and exact[left].mean() > _MIN_EXACT_SHARE)


# Features of an emitted token: scores, sets, and places in an order, for each row.


SCORE_WIDTHS = {"-log p": SURPRISE_CAP, "min(1, q/p)": 1.0, "(q-p)/(q+p)": 2.0}
"""Range of each score."""


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
    """Return what each test sums up, less its mean under the rows p: float64 (n, V), by its name.

    Of a PIT it is the middle of the token's interval.
    """
    tables: dict[str, Floats] = {f"score {n}": table for n, table in score_tables(again, q).items()}
    tables |= {f"score {n}": table.astype(float) for n, table in member_tables(again, q).items()}
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


# Bets on tokens as they come, which may be looked at, and may end a run, at any time.
#
# Under the target a randomised PIT is uniform given all that came before, so a density of it is a
# fair bet. With the bets on rates and on rounded weights their mean is an e-process: that it ever
# reaches 1 / alpha has a chance of alpha at most, however often you look (Ville's inequality).


LOOKS_TEST_NAME = "looks, bets on tokens as they come"

_TAIL_CUTS = (0.97, 0.9, 0.75, 0.5, 0.25, 0.1, 0.03)
"""Shares of the tokens, the first and the last in an order, that may come more often; large ones
win where the rest comes too rarely."""

_BET_SHARES = (0.7, 0.25, 0.08)
_BET_WEIGHTS = {"pits": 0.5, "rates": 0.25, "weights": 0.25}


@dataclass(frozen=True, eq=False)
class BetSnapshot:
    """All bets after some ``tokens``; None where there are none yet."""

    tokens: int
    pits: stats.BetSums | None
    rates: stats.BetSums | None
    weights: stats.BetSums | None


def pit_bets(pits: Mapping[str, Floats]) -> stats.BetSums:
    """Bet on randomised PITs, float64 (n,) by the name of their order."""
    result: stats.BetSums | None = None
    for order, u in pits.items():
        none, least = np.zeros(len(u)), np.zeros(len(u))
        for tail in _TAIL_CUTS:
            for side, inside in (("first", u < tail), ("last", u > 1.0 - tail)):
                ratios = np.where(inside, 1.0 / tail, none)
                bets = stats.bet_sums(
                    f"{side} {tail:g} in {order} order",
                    ratios,
                    least,
                    np.full(len(u), 1.0 / tail),
                    shares=_BET_SHARES,
                )
                result = bets if result is None else result.beside(bets)
    assert result is not None
    return result


def looks_log_evalue(seen: BetSnapshot, ball: float) -> float:
    """Return the log of the e-process, rows being off by TV ``ball`` on average."""
    parts = []
    for name, weight in _BET_WEIGHTS.items():
        sums: stats.BetSums | None = getattr(seen, name)
        value = 0.0
        if sums is not None:
            price = sums.n * np.log1p(ball * sums.widest)
            value = float(special.logsumexp(sums.log_wealth - price)) - math.log(len(sums.names))
        parts.append(math.log(weight) + value)
    return float(special.logsumexp(parts))


def looks_test(seen: Sequence[BetSnapshot], *, alpha: float, ball: float) -> stats.TestResult:
    """Test the target by the largest value that the e-process ever had, seen request by request."""
    path = [looks_log_evalue(own, ball) for own in seen]
    largest = max(path)
    return stats.TestResult(
        name=LOOKS_TEST_NAME,
        statistic=largest,
        log_pvalue=min(0.0, -largest),
        alpha=alpha,
        n=seen[-1].tokens,
        df=None,
        method=f"e-process, its largest value at {len(path)} looks",
        min_detectable=math.inf,
        deviation="any that a bet is on",
    )


def first_crossing(seen: Sequence[BetSnapshot], *, alpha: float, ball: float) -> int | None:
    """Return after how many tokens the e-process says FAIL; None if it never does."""
    needed = math.log(1.0 / alpha)
    return next((own.tokens for own in seen if looks_log_evalue(own, ball) > needed), None)


# Repeated prompts: answers that are drawn anew, or come from a cache.


COPY_TOKENS = 32  # First tokens of a request that make a copy of it, if another has them all
_COPY_STAKE = 1e-3  # What is bet on each request being a copy


class RepeatedAnswers:
    """Beginnings of answers, by the prompt and the law that they were asked for.

    ``compared``: requests to a prompt that was asked before. Of those that begin as an earlier
    answer to it did, :meth:`copies` has the chance of that.
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
        """Yield the log chance of each copy: that an answer begins as any of those before it.

        ``ball``: by how much each probability may be too small.
        """
        for known, count in self._copied:
            heads = list(known.values())[:count]
            logs = [float(np.log(np.minimum(chances + ball, 1.0)).sum()) for chances in heads]
            yield min(float(np.logaddexp.reduce(logs)), 0.0)

    @property
    def count(self) -> int:
        """Copies so far."""
        return len(self._copied)


def copies_log_evalue(compared: int, chances: Sequence[float]) -> float:
    """Return what bets on copies come to; ``chances``: logs, of the copies among ``compared``."""
    total = (compared - len(chances)) * math.log1p(-_COPY_STAKE)
    for log_chance in chances:
        total += float(np.logaddexp(math.log1p(-_COPY_STAKE), math.log(_COPY_STAKE) - log_chance))
    return total


# The engine's own log probabilities: which kind they are, and how far its rows are from ours.
#
# A token that the engine drew from its row P', and of which it says log P', tells a value of
# (1 - P / P')+, whose mean under P' is the TV distance from our row P. So the values are averaged,
# and bets are made that the mean is above what rounding explains: a few tokens tell wrong weights,
# where the tokens alone take thousands.


REPORTED_TEST_NAME = "reported log probabilities"

VALID_KINDS = (
    "processed",
    "raw",
    "by temperature alone",
    "before temperature",
    "before truncation",
)
"""What may be reported: of the law that is sampled, or of the target before some of it."""

_KIND_WORDS = {
    "processed": "of the law that is sampled",
    "raw": "of the target before temperature and truncation",
    "by temperature alone": "of the target by temperature, before truncation",
    "before temperature": "of the law before temperature and truncation, with all else",
    "before truncation": "of the law before truncation, with all else",
    "draft": "of the draft, not of the target",
    "row before": "of the token under the row before its own: stale by a row",
    "row after": "of the token under the row after its own: ahead by a row",
    "token before": "those of the token before: off by a place",
}
_CLEAR_ERROR_RATIO = 0.25
"""A kind that must not be is named where its median error is so many times the best right one's."""

_MAX_MEDIAN_ERROR = 0.5
"""A median error, in nats, of what fits nothing: such values are no log probabilities of these
rows (plain probabilities, other logarithms, sums), and weights that are so far off show in the
tokens."""

_BOUND_ERROR = 1e-3

_MIN_REQUEST_TOKENS, _MIN_EXACT_REQUESTS, _NEAR_LIMIT_RATIO = 16, 3, 10.0
"""Values of a request that say how far it is off; requests that must be exact to be no luck; and
how many times what ours are off an exact one may be, which is far from what bfloat16 moves."""


@dataclass
class ReportedSums:
    """Sums over requests: reported values, and for each kind what ours would be, twice."""

    values: list[Floats] = field(default_factory=list)
    ours: list[Mapping[str, Floats]] = field(default_factory=list)
    again: list[Mapping[str, Floats]] = field(default_factory=list)
    allowed: float = 0.0

    def add(self, scored: ScoredRequest) -> None:
        """Count a request, if it has any."""
        if scored.request.logprobs is not None and scored.stated:
            logprobs = scored.request.logprobs
            n = len(scored.request.tokens)
            padded = [np.nan if x is None else x for x in logprobs[:n]] + [np.nan] * (
                n - len(logprobs)
            )
            self.values.append(np.array(padded, float))
            self.ours.append(scored.stated)
            self.again.append(scored.stated_again)

    def said(self, alpha: float) -> "LogprobKind | None":
        """Return what the values are of, by tests at ``alpha``; None where there are none."""
        if not self.values:
            return None
        values = np.concatenate(self.values)
        there = np.isfinite(values)
        if not there.any():
            return None
        known = values[there]
        ours = {name: self._joined(self.ours, name)[there] for name in self.ours[0]}
        errors = {name: float(np.nanmedian(np.abs(own - known))) for name, own in ours.items()}
        right = min(VALID_KINDS, key=lambda name: errors[name])
        wrong = min((n for n in errors if n not in VALID_KINDS), key=lambda name: errors[name])
        unit = logprob_resolution(known.tolist())
        kind = right
        if errors[wrong] < _CLEAR_ERROR_RATIO * errors[right] and errors[right] > 10 * unit + 1e-3:
            kind = wrong
        again = self._joined(self.again, right)[there]
        off = _positive_excess(ours[right], known)
        value = float(_positive_excess(ours[right], again).mean())
        ends = np.cumsum([int(np.isfinite(part).sum()) for part in self.values])[:-1]
        each = [
            float(part.mean()) for part in np.split(off, ends) if len(part) >= _MIN_REQUEST_TOKENS
        ]
        owners = np.repeat(np.arange(len(self.values)), [len(part) for part in self.values])[there]
        nearest = np.min(
            [np.abs(ours[k] - known) for k in ours if k in (*VALID_KINDS, "draft")], axis=0
        )
        why = mismatch_reason(known, ours[right], ours["processed"], nearest, owners, unit, alpha)
        return LogprobKind(kind, right, errors[kind], off, value + unit, tuple(each), why)

    def _joined(self, parts: list[Mapping[str, Floats]], name: str) -> Floats:
        return np.concatenate([part[name] for part in parts])


@dataclass(frozen=True, eq=False)
class LogprobKind:
    """What reported values are of: ``kind``, of ``right`` ones the nearest is ``right``.

    ``error``: median distance from ours, in nats. ``off``: float64 (n,), each token's value of
    (1 - P / P')+. ``rounding``: mean of what computing ours again, and writing them down, moves.
    ``each``: means over the requests of some length. ``doubt``: why values that are off are no
    evidence on the tokens, if so.
    """

    kind: str
    right: str
    error: float
    off: Floats
    rounding: float
    each: tuple[float, ...] = ()
    doubt: str | None = None

    def exact(self, ball: float) -> int:
        """Requests that are off by no more than ours are, where others are beyond ``ball``.

        A coarser precision moves every request, so that it explains no run that has some of them.
        """
        limit = _NEAR_LIMIT_RATIO * self.limit(ball)
        count = sum(own <= limit for own in self.each)
        return count if _MIN_EXACT_REQUESTS <= count < len(self.each) else 0

    @property
    def fits(self) -> bool:
        """Whether they are of the target at all, so that its weights can be judged by them."""
        return self.kind in VALID_KINDS and self.error <= _MAX_MEDIAN_ERROR

    @property
    def tells(self) -> bool:
        """Whether they may be held against the tokens where they are off."""
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
        variance = float(self.off.var(ddof=1))
        _, high = empirical_bernstein(
            self.tv, variance, n, low=0.0, high=1.0, error=2 * _BOUND_ERROR
        )
        return high

    def test(self, alpha: float, ball: float) -> stats.TestResult:
        """Test that the engine's rows are within ``ball`` of ours on average."""
        return stats.capped_mean_test(
            self.off, limit=self.limit(ball), alpha=alpha, name=REPORTED_TEST_NAME
        )

    def limit(self, ball: float) -> float:
        """What the mean may be: the ball, and what writing the values down moves."""
        return min(max(ball, self.rounding), 0.999)

    def words(self) -> str:
        """What they are of, in words."""
        if self.kind in VALID_KINDS and not self.fits:
            return f"fit nothing here: off by {self.error:.2g} nats at the median"
        return f"are {_KIND_WORDS[self.kind]}"


def _positive_excess(ours: Floats, theirs: Floats) -> Floats:
    """(1 - P / P')+ of each token."""
    return np.clip(1.0 - np.exp(np.minimum(ours - theirs, 0.0)), 0.0, 1.0)


# Where a run fails: the tokens that the target expected least, and their positions.


MAX_WORST_TOKENS = 10
_CONTEXT_TOKENS = 6  # Tokens of the text before and after
_MIN_PLACE_TOKENS = 20  # Tokens at a place, for it to be told
_GROUP_STARTS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Positions in a request at which a group begins."""


@dataclass(frozen=True, order=True)
class _TokenDeviation:
    """How far a token is off; ordered, the worst first, by what it takes and then by its place."""

    chance: float
    gap: float
    request: int
    position: int
    p: float
    rank: int
    expected: int
    expected_p: float


class WorstTokens:
    """The ``MAX_WORST_TOKENS`` tokens of the smallest chance under their rows, of what was added.

    The chance of a token is that of it and all that are no likelier: what truncation cuts off has
    none, and of those the one furthest outside is the worst.
    """

    def __init__(self) -> None:
        self._found: list[tuple[float, float, int, int, _TokenDeviation]] = []

    def add(self, number: int, p: Floats, tokens: npt.NDArray[np.int64], gap: Floats) -> None:
        """Look at the tokens of a request; ``gap``: how far each is outside the support."""
        rows = np.arange(len(tokens))
        probabilities = p[rows, tokens]
        chances = np.where(p <= probabilities[:, None], p, 0.0).sum(axis=1)
        for i in np.lexsort((-gap, chances))[:MAX_WORST_TOKENS]:
            top = int(p[i].argmax())
            off = _TokenDeviation(
                float(chances[i]),
                -float(gap[i]),
                number,
                int(i),
                float(probabilities[i]),
                1 + int((p[i] > probabilities[i]).sum()),
                top,
                float(p[i, top]),
            )
            entry = (-off.chance, -off.gap, -off.request, -off.position, off)
            if len(self._found) < MAX_WORST_TOKENS:
                heapq.heappush(self._found, entry)
            elif entry > self._found[0]:
                heapq.heapreplace(self._found, entry)

    def documents(
        self, kept: Sequence[Request], decode: Callable[[Sequence[int]], str]
    ) -> tuple[doc.WorstToken, ...]:
        """Return them with their text, the worst first; ``decode``: a tokenizer's."""
        worst_tokens = []
        for off in sorted(entry[-1] for entry in self._found):
            request = kept[off.request]
            before = (*request.prompt, *request.tokens[: off.position])[-_CONTEXT_TOKENS:]
            token = request.tokens[off.position]
            after = request.tokens[off.position + 1 : off.position + 1 + _CONTEXT_TOKENS]
            worst_tokens.append(
                doc.WorstToken(
                    request=off.request,
                    position=off.position,
                    slot=_draft_slot(request, off.position),
                    token=token,
                    text=decode([token]),
                    before=decode(before),
                    after=decode(after),
                    p=off.p,
                    rank=off.rank,
                    chance=off.chance,
                    expected=off.expected,
                    expected_text=decode([off.expected]),
                    expected_p=off.expected_p,
                )
            )
        return tuple(worst_tokens)


def _draft_slot(request: Request, position: int) -> int | None:
    slot = -1 if request.slots is None else request.slots[position]
    return None if slot < 0 else slot


def deviation_by_position(
    name: str, deviations: Sequence[Floats], kept: Sequence[Request]
) -> tuple[doc.AtPlace, ...]:
    """Return how far a mean is off by position in the request, and in the draft where it is known.

    Parameters
    ----------
    name
        Of the mean.
    deviations
        For each request float64 (2, n): each token's value less its mean under its row, and the
        variance there.
    """
    positions = np.concatenate([np.arange(own.shape[1]) for own in deviations])
    off, variance = np.concatenate(deviations, axis=1)
    groups = np.searchsorted(_GROUP_STARTS, positions, side="right") - 1
    places = []
    for group in range(len(_GROUP_STARTS)):
        last = (
            _GROUP_STARTS[group + 1] - 1
            if group + 1 < len(_GROUP_STARTS)
            else int(positions.max(initial=0))
        )
        inside = groups == group
        places += _position_entries(
            "request", _GROUP_STARTS[group], last, name, off[inside], variance[inside]
        )
    if any(request.slots is not None for request in kept):
        slots = np.concatenate(
            [
                np.full(own.shape[1], -1)
                if request.slots is None
                else np.array(request.slots[: own.shape[1]])
                for request, own in zip(kept, deviations, strict=True)
            ]
        )
        for slot in np.unique(slots[slots >= 0]).tolist():
            inside = slots == slot
            places += _position_entries("draft", slot, slot, name, off[inside], variance[inside])
    return tuple(places)


def _position_entries(
    of: doc.PlaceOf, first: int, last: int, name: str, off: Floats, variance: Floats
) -> list[doc.AtPlace]:
    total = float(variance.sum())
    if len(off) < _MIN_PLACE_TOKENS or not total > 0.0:
        return []
    return [
        doc.AtPlace(
            of=of,
            first=first,
            last=last,
            tokens=len(off),
            name=name,
            mean=float(off.mean()),
            sigmas=float(off.sum()) / math.sqrt(total),
        )
    ]


# All evidence of a run: randomised PITs in the orders, scores, neighbours.


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
        self.snapshots: list[BetSnapshot] = []
        self.tokens = WorstTokens()
        self.reported = ReportedSums()
        self.repeats = RepeatedAnswers()
        self.same: stats.IndicatorSums | None = None
        self.copies: list[Floats] = []
        self.neighbours = self.n = 0
        self.distance = self.worst = 0.0
        self._seed, self._before = seed, np.zeros(0, np.int64)
        self._gaps: list[Floats] = []
        self._bets: stats.BetSums | None = None
        self._shift = 0.0

    def add(self, scored: ScoredRequest) -> None:
        """Count a request."""
        tokens = np.array(scored.request.tokens)
        self.n += len(tokens)
        self._gaps.append(scored.gap[scored.gap > 0.0])
        self._shift = max(self._shift, float(scored.shift.max()))
        self.reported.add(scored)
        self.repeats.add(scored.request, scored.p)
        off = tv_distances(scored.p, scored.p_again)
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
        self.snapshots.append(BetSnapshot(self.n, self._bets, self.rates.sums, self.weights))

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

    def _order(self, scored: ScoredRequest, tokens: npt.NDArray[np.int64]) -> None:
        key = np.array([self._seed, PIT], np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 1, scored.number]))
        v = draws.random(len(tokens))
        keys = order_keys(scored.p_again, scored.q)
        places = np.stack([stats.pit_bounds(scored.p, order, tokens) for order in keys.values()])
        pits = np.minimum(places[:, 0] + v * (places[:, 1] - places[:, 0]), 1.0)
        self.places.append(places)
        self.pits.append(pits)
        for name, row in zip(keys, pits, strict=True):
            self._note(f"PIT in {name} order", row - 0.5, np.full(len(row), _PIT_VARIANCE))

    def _score(self, scored: ScoredRequest, tokens: npt.NDArray[np.int64]) -> None:
        p, again, q = scored.p, scored.p_again, scored.q
        rows = np.arange(len(tokens))
        for name, table in score_tables(again, q).items():
            law = stats.score_moments(p, table)
            values = table[rows, tokens]
            sums = stats.score_sums(
                values,
                mean=law.mean,
                variance=law.variance,
                third=law.third,
                fourth=law.fourth,
                low=law.low,
                high=law.high,
                width=SCORE_WIDTHS[name],
            )
            self.scores[name] = self.scores[name] + sums if name in self.scores else sums
            self._note(f"score {name}", values - law.mean, law.variance)
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
        sums = stats.indicator_sums(tokens[:k] == before[:k], chances)
        self.same = sums if self.same is None else self.same + sums
        self.neighbours += 1
        head = min(len(before), COPY_TOKENS)
        if np.array_equal(tokens[:head], before[:head]):
            self.copies.append(chances[:head])


def logit_spread(rows: Floats) -> Floats:
    """Standard deviation of each row's logits over the tokens that are kept, float64 (n,)."""
    logs = stats.surprise(rows)
    kept = rows > 0.0
    count = kept.sum(axis=1)
    mean = np.where(kept, logs, 0.0).sum(axis=1) / count
    spread: Floats = np.sqrt(np.where(kept, (logs - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    return spread


# Tests of tokens that follow each other, and of requests that share a stream or are copies.


_PAIR_LAGS = {"in a request": None, "neighbouring requests": 1, "requests two apart": 2}


def pair_tests(found: OutputEvidence, alpha: float, ball: float) -> list[stats.TestResult]:
    """Return the tests there are pairs for, at ``alpha`` in all."""
    each = alpha / (4 * len(_PAIR_LAGS) + 3)
    tests = []
    for words, lag in _PAIR_LAGS.items():
        for order in (0, 1):
            sums = _lagged_pair_sums([pits[order] for pits in found.pits], lag)
            if sums is not None and sums.n >= MIN_PAIRS:
                name = f"pairs, correlation {words}, {found.orders[order]} order"
                # Twice the ball, as the rows that are off may be those of extreme PITs.
                tests.append(
                    stats.pit_correlation(sums, alpha=each, ball=min(2 * ball, 0.999), name=name)
                )
            bets = _stream_bets([places[order] for places in found.places], lag)
            if bets is not None:
                tests.append(
                    stats.bet_test(
                        bets,
                        alpha=each,
                        ball=ball,
                        name=f"pairs, repeated stream {words}, {found.orders[order]} order",
                        deviation="share of tokens drawn with a uniform that was used before",
                    )
                )
    if found.same is not None and found.same.variance > 0.0:
        tests.append(
            stats.indicator_test(
                found.same, alpha=each, ball=ball, name="pairs, same token as the request before"
            )
        )
    if found.neighbours:
        chances = [float(np.log(np.minimum(own + ball, 1.0)).sum()) for own in found.copies]
        tests.append(_copies_test("the request before", found.neighbours, chances, each))
    if found.repeats.compared:
        chances = list(found.repeats.copies(ball))
        of = "an earlier answer to the prompt"
        tests.append(_copies_test(of, found.repeats.compared, chances, each))
    return tests


def skipped_tests(found: OutputEvidence) -> Iterator[str]:
    """Say which of the tests had too little to go by."""
    for words, lag in _PAIR_LAGS.items():
        sums = _lagged_pair_sums([pits[0] for pits in found.pits], lag)
        n = 0 if sums is None else sums.n
        if n < MIN_PAIRS:
            rest = " and of a repeated stream" if n == 0 else ""
            yield f"test of correlation{rest} ({words}): {n:,} pairs, it takes {MIN_PAIRS:,}"
    if not found.neighbours:
        yield "tests against the request before: there is one request"


def _lagged_pairs(parts: Sequence[Floats], lag: int | None) -> tuple[Floats, Floats] | None:
    """Pairs within each request, or at the same place of requests ``lag`` apart; (..., n) each."""
    if lag is None:
        pairs = [(own[..., :-1], own[..., 1:]) for own in parts]
    else:
        pairs = [
            (a[..., : b.shape[-1]], b[..., : a.shape[-1]])
            for a, b in zip(parts, parts[lag:], strict=False)
        ]
    if sum(first.shape[-1] for first, _ in pairs) == 0:
        return None
    first, second = (np.concatenate(side, axis=-1) for side in zip(*pairs, strict=True))
    return first, second


def _lagged_pair_sums(pits: Sequence[Floats], lag: int | None) -> stats.PairSums | None:
    pairs = _lagged_pairs(pits, lag)
    return None if pairs is None else stats.pair_sums(*pairs)


def _stream_bets(places: Sequence[Floats], lag: int | None) -> stats.BetSums | None:
    pairs = _lagged_pairs(places, lag)
    return None if pairs is None else stats.stream_sums(*pairs)


def _copies_test(
    of: str, compared: int, chances: Sequence[float], alpha: float
) -> stats.TestResult:
    """Bet on copies, of which each had the log chance that its rows give."""
    return stats.TestResult(
        name=f"pairs, copies of {of}",
        statistic=float(len(chances)),
        log_pvalue=min(0.0, -copies_log_evalue(compared, chances)),
        alpha=alpha,
        n=compared,
        df=None,
        method=f"e-value of requests that repeat the first {COPY_TOKENS} tokens of {of}",
        min_detectable=math.inf,
        deviation="copies",
    )


# Rounded weights of the engine: bets on the laws of rounded weights.


WEIGHT_TOKENS = 8_192
"""Tokens that are scored with rounded weights: so many tell four bits, at a bounded price."""

SCREENING_TOKENS = 1_024
"""First tokens on which all roundings are bet on: enough to tell which are none of the engine's."""

MAX_SURVIVING_FORMATS = 3  # Roundings that are bet on after that: those that won most
_MIX_STRENGTHS = (1.0, 0.3)
"""How strongly the laws of rounded weights are mixed with the target's own."""


def format_ratios(one: ScoredRequest, logits: NDArray[np.float32], pair: TransformerPair) -> Floats:
    """Return how much likelier tokens are by the logits of rounded weights, float64 (3, n).

    Of the emitted token, then the least and the largest of its row.
    """
    _, table = _rounded_rows(one, logits, pair)
    return _at_emitted(one, table)


def _rounded_rows(
    one: ScoredRequest, logits: NDArray[np.float32], pair: TransformerPair
) -> tuple[Floats, Floats]:
    """Return the rows of rounded weights and their ratios to the target's, float64 (n, V)."""
    rows = one.request.rows(logits, pair)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rows, np.where(rows == one.p, 1.0, rows / one.p)


def _at_emitted(one: ScoredRequest, table: Floats) -> Floats:
    tokens = np.array(one.request.tokens)
    return np.stack([table[np.arange(len(tokens)), tokens], table.min(axis=1), table.max(axis=1)])


@dataclass
class ExpectedGains:
    """What tokens of one format would win for its bets, summed over the contexts of ``n`` tokens.

    The target's rows and the format's are both known, so that this needs no such tokens. ``won``,
    ``squares``: sums of the mean and mean square of a token's log factor under the format's law,
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

    Where bets end is fixed by the number of the token, inside a request or not, and which go on is
    known by then: whether a token counts must not depend on what it turned out to be.
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
            rows, table = _rounded_rows(one, logits, pair)
            ratios[name] = _at_emitted(one, table)
            self._gains[name].add(one.p, rows, table)
        return self.bet(ratios)

    def powers(self, alpha: float, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which weights the tokens bet on would have told, at this level and ball.

        Formats whose laws are the target's own, and those that were never scored, have no entry.
        """
        bets = len(self.names) * len(_MIX_STRENGTHS)
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
        total: stats.BetSums | None = None
        for limit in (min(SCREENING_TOKENS, WEIGHT_TOKENS), WEIGHT_TOKENS):
            end = int(np.clip(limit - before, start, n))
            if end > start:
                part = self._part({name: x[:, start:end] for name, x in ratios.items()})
                total = part if total is None else total + part
                start = end
        return total

    def _part(self, ratios: Mapping[str, Floats]) -> stats.BetSums:
        n = next(iter(ratios.values())).shape[1]
        result: stats.BetSums | None = None
        for i, name in enumerate(self.names):
            # What is bet on no more wins nothing and loses nothing.
            seen = ratios[name] if name in self._left else np.ones((3, n))
            bet = stats.bet_sums(name, *seen, shares=_MIX_STRENGTHS)
            self._wealth[i] += bet.log_wealth
            result = bet if result is None else result.beside(bet)
        assert result is not None
        self.n += n
        if self.n == SCREENING_TOKENS:
            best = np.argsort(-self._wealth.max(axis=1), kind="stable")[:MAX_SURVIVING_FORMATS]
            self._left = {self.names[i]: self._left[self.names[i]] for i in best.tolist()}
        return result
