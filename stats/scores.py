"""Scores of emitted tokens: what is kept of them, the exact tails of their sums, their tests.

A score is a bounded function of an emitted token, and its mean under the target is known. In
one context ``totals[c]`` tokens are drawn from row c and each adds ``values[c, x]``, so the law
of a sum over repeated contexts follows from how often each context came. The same holds for a
log-likelihood ratio.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from simverify.stats._checks import (
    Floats,
    Ints,
    TestResult,
    add_fields,
    check_count_rows,
    check_open_unit,
    check_positive_float,
    check_positive_int,
    check_probability_rows,
    check_row_tolerance,
    with_row_tolerance,
)
from simverify.stats.tails import log_normal_sf, log_upper_tail

# Drift of mean scores: whether a known cause explains it.


def drift_test(
    observed: Any,
    variances: Any,
    expected: Any,
    errors: Any,
    *,
    n: int,
    alpha: float,
    most: float = 2.0,
    name: str = "drift",
) -> TestResult:
    """Test that group means are a multiple c of what a cause was measured to make, abs(c) <= most.

    The statistic is the least sum over groups of (observed - c expected)^2 / (variance + c^2 error)
    over all such c. At the true c it has the chi-square law with a degree of freedom a group, for
    means of many terms, so that its least value is below that: the size is alpha at most. A cause
    whose effects cancel in the mean has an ``expected`` of nearly 0, and then a mean that is off at
    all is not its doing. ``observed``, ``variances``: float64 (groups,), mean of the centred scores
    of each group of tokens, and the variance of that mean. ``expected``, ``errors``: float64
    (groups,), mean by which the cause moved the scores of that group where it was tried, and the
    variance of that mean. ``n``: tokens behind ``observed``. ``most``: largest multiple of the
    measured effect that still is that cause. ``min_detectable`` is the mean, over the groups
    together, that is found with power .9 where the cause makes none. Raises ``ValueError`` if
    shapes differ, there is no group or no token, a number is not finite, a variance is not
    positive, an error is negative, most is not positive or alpha is outside (0, 1).

    Source: Cochran, "The chi-square test of goodness of fit", Annals of Mathematical Statistics 23
    (1952) 315-345, for the least chi-square over a parameter.
    """
    alpha, bound = check_open_unit("alpha", alpha), check_positive_float("most", most)
    n = check_positive_int("n", n)
    groups = [
        np.array(a, dtype=np.float64, ndmin=1) for a in (observed, variances, expected, errors)
    ]
    seen, spread, predicted, doubt = groups
    if seen.ndim != 1 or not seen.size or len({a.shape for a in groups}) > 1:
        raise ValueError(f"observed has shape {seen.shape}, expected (groups,) of all four")
    if not all(np.isfinite(a).all() for a in groups):
        raise ValueError("a mean or a variance is NaN or infinite: expected finite ones")
    if not ((spread > 0.0).all() and (doubt >= 0.0).all()):
        raise ValueError("a variance is not positive, or an error negative: expected neither")

    def misfit(c: Any) -> Any:
        """Misfit of one multiple, or of each of an array (multiples, 1)."""
        return ((seen - c * predicted) ** 2 / (spread + c * c * doubt)).sum(axis=-1)

    from scipy import stats as laws  # half a second that few processes need

    statistic = _minimum_misfit(misfit, bound)
    return TestResult(
        name=name,
        statistic=statistic,
        log_pvalue=float(laws.chi2.logsf(statistic, seen.size)),
        alpha=alpha,
        n=n,
        df=seen.size,
        method=f"least chi-square over multiples up to {bound:g} of the measured drift",
        # The common mean of all groups, by the noncentral chi-square.
        min_detectable=float(np.sqrt(_noncentrality(seen.size, alpha) / (1.0 / spread).sum())),
        deviation="shift of the mean score",
    )


def _minimum_misfit(misfit: Any, bound: float) -> float:
    """Least value on [-bound, bound]: on a grid, then around its best point."""
    from scipy import optimize  # a tenth of a second that few processes need

    grid = np.linspace(-bound, bound, 41)
    values = misfit(grid[:, None])
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 40)]
    minimum = optimize.minimize_scalar(misfit, bounds=(low, high), method="bounded")
    return min(float(minimum.fun), float(values[best]))


@lru_cache(maxsize=64)
def _noncentrality(df: int, alpha: float) -> float:
    """Noncentrality of a chi-square that is found with power .9; the same for every sample."""
    from scipy import optimize
    from scipy import stats as laws

    critical = laws.chi2.isf(alpha, df)
    root: float = optimize.brentq(lambda x: laws.ncx2.sf(critical, df, x) - 0.9, 1e-6, 1e4)
    return root


# The score bank: bounded functions of an emitted token, and their moments under P.
#
# Each is large where a kind of fault puts too much or too little mass. ``p`` is the target row,
# ``q`` the draft row of the slot.


SURPRISE_CAP = 16.0  # nats at which the surprise is clipped: tokens rarer than 1.1e-7 count alike


def q_above_p(p: Any, q: Any) -> npt.NDArray[np.bool_]:
    """1{q > p}: the tokens that are rejected at times; their mass is TV(p, q) under a fault.

    ``p``, ``q``: float64 (..., V), rows; each sums to 1. Raises ``ValueError`` if shapes differ, V
    < 2 or a row is no law.
    """
    p, q = _check_pair(p, q)
    above: npt.NDArray[np.bool_] = q > p
    return above


def rare_token(p: Any, *, below: float) -> npt.NDArray[np.bool_]:
    """1{P(x) < below}: counts the tail of the target's vocabulary.

    Raises ``ValueError`` if V < 2, a row is no law or ``below`` is not positive.
    """
    rows = check_probability_rows("p", p, np.ndim(p))
    rare: npt.NDArray[np.bool_] = rows < check_positive_float("below", below)
    return rare


def accept(p: Any, q: Any) -> Floats:
    """min(1, q / p): moves the other way where mass is taken from tokens that q lacks.

    Float64 (..., V) in [0, 1]; 1 where p = 0 < q, 0 where both are 0. Parameters and errors
    as :func:`q_above_p`.
    """
    p, q = _check_pair(p, q)
    # A quotient above 1 is not asked for: over the smallest floats it overflows.
    ratio: Floats = np.divide(q, p, out=np.sign(q), where=q < p)
    return ratio


def contrast(p: Any, q: Any) -> Floats:
    """(q - p) / (q + p): the score of a mixture of p and q half way, bounded by 1.

    Float64 (..., V) in [-1, 1]; 0 where both are 0. Parameters and errors as :func:`q_above_p`.
    """
    p, q = _check_pair(p, q)
    total = q + p
    score: Floats = (q - p) / np.where(total > 0.0, total, 1.0)
    return score


def surprise(p: Any, *, cap: float = SURPRISE_CAP) -> Floats:
    """min(-log P(x), cap) in nats: too cold, too hot, or a wrong row altogether.

    The cap bounds the score, so that its tail can be; it also makes the score of a token of
    probability 0 finite. Raises ``ValueError`` if V < 2, a row is no law or ``cap`` is not
    positive.
    """
    rows = check_probability_rows("p", p, np.ndim(p))
    floor = np.exp(-check_positive_float("cap", cap))
    # Not -log: a token of probability 1 has surprise 0, not -0.
    return 0.0 - np.log(np.maximum(rows, floor))


def _check_pair(p: Any, q: Any) -> tuple[Floats, Floats]:
    target, draft = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if target.shape != draft.shape:
        raise ValueError(f"p, q have shapes {target.shape}, {draft.shape}, expected the same")
    check_probability_rows("p", target, target.ndim)
    check_probability_rows("q", draft, draft.ndim)
    return target, draft


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMoments:
    """Moments of a score under each row: float64 (...,) each.

    ``variance``, ``third`` and ``fourth`` are central moments; ``low`` and ``high`` bound the
    score over tokens of positive probability.
    """

    mean: Floats
    variance: Floats
    third: Floats
    fourth: Floats
    low: Floats
    high: Floats


def score_moments(rows: Any, scores: Any) -> ScoreMoments:
    """Moments of scores under rows, row by row: what a kernel streams, for its oracle.

    ``rows``: float64 (..., V), laws; each sums to 1. ``scores``: array (..., V), finite scores, or
    bools. Raises ``ValueError`` if shapes differ, V < 2, a row is no law or a score is not finite.
    """
    law, values = check_scores(rows, scores, np.ndim(rows))
    centred = center_scores(law, values)
    possible = law > 0.0
    return ScoreMoments(
        mean=(law * values).sum(axis=-1),
        variance=(law * centred**2).sum(axis=-1),
        third=(law * centred**3).sum(axis=-1),
        fourth=(law * centred**4).sum(axis=-1),
        low=np.where(possible, values, np.inf).min(axis=-1),
        high=np.where(possible, values, -np.inf).max(axis=-1),
    )


def center_scores(rows: Floats, scores: Floats) -> Floats:
    """Scores less their mean under each row, with the digits of their differences.

    Scores that are equal but for rounding have a mean with the rounding of its own; taken from
    a likely token's score first, what is left of them is the exact difference.
    """
    likely = np.expand_dims(rows.argmax(axis=-1), -1)
    apart = scores - np.take_along_axis(scores, likely, axis=-1)
    centred: Floats = apart - (rows * apart).sum(axis=-1, keepdims=True)
    return centred


def check_scores(rows: Any, scores: Any, ndim: int) -> tuple[Floats, Floats]:
    """Return rows and scores as float64 of one shape; rows are laws, scores finite."""
    law = check_probability_rows("rows", rows, ndim)
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != law.shape:
        raise ValueError(f"scores has shape {values.shape}, expected {law.shape} as the rows")
    if not np.isfinite(values).all():
        raise ValueError("a score is NaN or infinite, expected bounded scores: clip them")
    return law, values


# Bits with known probabilities: accept bits, and scores that are 0 or 1.
#
# A stream of bits is kept as their sum and a fine histogram of their probabilities: constant
# memory, and shards add. The tail is that of a Poisson-binomial law that is never lighter than
# the true one.


INDICATOR_BINS = 960
"""Bins on each side of 1/2, sixteen to each halving; one more holds the exact 0 or 1."""

RARE_EDGES = np.append(0.5 * 2.0 ** (-np.arange(INDICATOR_BINS) / 16.0), 0.0)
"""Largest rarer-side probability in each bin."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IndicatorSums:
    """Sums over bits whose probabilities are known; those of disjoint samples add up.

    ``n``, ``hits``: bits, and how many of them are 1. ``impossible``: bits that are 1 at
    probability 0, or 0 at probability 1. ``bits``: int64 (2, INDICATOR_BINS + 1), bits by the
    probability of their rarer value, in axis 0 those whose rarer value is 1 (probability at most
    1/2), then those whose rarer value is 0. ``rare``: float64 (2, INDICATOR_BINS + 1), sum of the
    rarer value's probabilities over the bits of each bin.
    """

    n: int
    hits: int
    impossible: int
    bits: Ints
    rare: Floats

    def __add__(self, other: "IndicatorSums") -> "IndicatorSums":
        return add_fields(self, other)

    @property
    def mean(self) -> float:
        """Expected hits under the null."""
        return float(self.rare[0].sum() + self.bits[1].sum() - self.rare[1].sum())

    @property
    def variance(self) -> float:
        """Variance of the hits under the null, with the mean probability of each bin."""
        share = self.rare / np.maximum(self.bits, 1)
        return float((self.rare * (1.0 - share)).sum())


def indicator_bin(probability: Any) -> tuple[Any, Any]:
    """Side (0 or 1) and bin of probabilities in [0, 1], elementwise: what kernels do too.

    Raises ``ValueError`` if a probability is NaN or outside [0, 1].
    """
    p = np.asarray(probability, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("a probability is NaN or outside [0, 1], expected neither")
    side = p > 0.5
    rare = np.where(side, 1.0 - p, p)
    with np.errstate(divide="ignore"):
        index = np.minimum(-16.0 * np.log2(2.0 * rare), INDICATOR_BINS - 1.0)
    return side.astype(np.int64), np.where(rare == 0.0, INDICATOR_BINS, index).astype(np.int64)


def indicator_sums(bits: Any, probabilities: Any) -> IndicatorSums:
    """Sum up bits and the probabilities with which each was to be 1.

    ``bits``: int or bool (n,), 0 or 1; n fixed beforehand. ``probabilities``: float64 (n,),
    probability of a 1, given all that came before. Raises ``ValueError`` if shapes differ, n is 0,
    a bit is neither 0 nor 1 or a probability not in [0, 1].
    """
    b, p = np.asarray(bits), np.asarray(probabilities, dtype=np.float64)
    if b.ndim != 1 or b.shape != p.shape or b.size == 0:
        raise ValueError(
            f"bits, probabilities have shapes {b.shape}, {p.shape}, expected (n,), n >= 1"
        )
    if b.dtype.kind not in "biu" or b.min() < 0 or b.max() > 1:
        raise ValueError(f"bits span {b.min()}..{b.max()} ({b.dtype}), expected integers 0 and 1")
    return _sums_by_bin(b.astype(np.int64), np.ones(b.size, dtype=np.int64), p)


def indicator_sums_of_contexts(counts: Any, rows: Any, members: Any) -> IndicatorSums:
    """Sum up the tokens that belong to a set, which may differ from context to context.

    ``counts``: int (contexts, V), emitted tokens per context. ``rows``: float64 (contexts, V),
    target rows; each sums to 1. ``members``: bool (contexts, V), the tokens that score 1. Raises
    ``ValueError`` if there is no token, counts are negative or not integers, shapes differ, V < 2
    or a row is no law.
    """
    array, law = check_count_rows("counts", counts, rows)
    inside = np.asarray(members)
    if inside.dtype != np.bool_ or inside.shape != array.shape:
        raise ValueError(f"members is {inside.dtype} {inside.shape}, expected bool {array.shape}")
    if array.sum() == 0:
        raise ValueError("counts are all 0, expected at least one token")
    # Sums of all or of no possible tokens are 1 and 0, whatever their last digits say.
    outside = ~inside & (law > 0.0)
    chance = np.where(outside.any(axis=1), np.where(inside, law, 0.0).sum(axis=1), 1.0)
    return _sums_by_bin((array * inside).sum(axis=1), array.sum(axis=1), np.minimum(chance, 1.0))


def _sums_by_bin(hits: Ints, trials: Ints, p: Floats) -> IndicatorSums:
    side, index = indicator_bin(p)
    width = INDICATOR_BINS + 1
    flat = side * width + index
    rare = np.where(p > 0.5, 1.0 - p, p)
    bits = np.bincount(flat, trials, 2 * width).astype(np.int64)
    sums = np.bincount(flat, rare * trials, 2 * width)
    return IndicatorSums(
        n=int(trials.sum()),
        hits=int(hits.sum()),
        impossible=int(hits[p == 0.0].sum() + (trials - hits)[p == 1.0].sum()),
        bits=bits.reshape(2, width),
        rare=sums.astype(np.float64).reshape(2, width),
    )


# The exact test of bits with known probabilities, and its plan.


_NEWTON_STEPS = 8
"""Steps of Newton's method before the search for a critical number goes on by halves."""


def indicator_test(
    sums: IndicatorSums, *, alpha: float, ball: float = 0.0, name: str = "indicator"
) -> TestResult:
    """Test that bits have their probabilities: exact Poisson-binomial, two-sided.

    It serves accept bits (a bit that its probability excludes fails at once) and scores that are 0
    or 1. ``statistic`` is the rate of hits less its expectation. ``sums``: of n
    bits, n fixed beforehand. ``ball``: TV distance by which each conditional law may be off. Raises
    ``ValueError`` if alpha is outside (0, 1) or ball outside [0, 1).

    The p-value is twice the smaller tail. Probabilities within a bin are replaced by their
    mean, which makes both tails heavier from 2 hits off the mean on (Gleser 1975), by 1e-4 of
    the variance at most; closer to the mean they are rounded towards the observed side. The
    tail is exact if probabilities do not depend on earlier bits; where they do, as in a
    generation, the sum is a martingale of the same variance and the tail holds to first order.

    Source: Gleser, "On the distribution of the number of successes in independent trials", Annals
    of Probability 3 (1975) 182-188.
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    if sums.impossible and radius == 0.0:
        log_p = -math.inf
    else:
        upper = _log_upper_tail(sums.hits, sums.bits, sums.rare, radius)
        misses = sums.n - sums.hits
        lower = _log_upper_tail(misses, sums.bits[::-1], sums.rare[::-1], radius)
        log_p = min(0.0, math.log(2.0) + min(upper, lower))
    return TestResult(
        name=name,
        statistic=(sums.hits - sums.mean) / sums.n,
        log_pvalue=log_p,
        alpha=alpha,
        n=sums.n,
        method=with_row_tolerance("exact Poisson-binomial", radius),
        min_detectable=indicator_min_detectable(sums, alpha=alpha, ball=radius),
        deviation="shift of the rate",
    )


def _log_upper_tail(hits: int, bits: Ints, rare: Floats, radius: float) -> float:
    """Log of an upper bound on P(S >= hits), sharp unless hits is near the mean."""
    p = rare / np.maximum(bits, 1)
    mean = float(rare[0].sum() + bits[1].sum() - rare[1].sum())
    if hits < mean + 2.0:
        # Towards more hits: rare hits up to their bin's upper edge, rare misses to its lower.
        p = np.stack([RARE_EDGES, np.append(RARE_EDGES[1:], 0.0)])
    success, failure = np.stack([p[0], 1.0 - p[1]]), np.stack([1.0 - p[0], p[1]])
    if radius > 0.0:
        success = np.minimum(success + radius, 1.0)
        failure = 1.0 - success
    return log_upper_tail(hits, success.ravel(), failure.ravel(), bits.ravel().astype(np.float64))


def indicator_min_detectable(
    sums: IndicatorSums, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Every possible shift of the rate of at least this size is found with this power.

    ``sums`` stands for its probabilities alone; what was hit does not matter. inf if no shift that
    the probabilities leave room for is promised. Raises ``ValueError`` if alpha or power is outside
    (0, 1) or ball outside [0, 1).
    """
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    radius = check_row_tolerance(ball)
    z, deviation = float(scipy.special.ndtri(power)), math.sqrt(sums.variance)
    far = -float(scipy.special.ndtri(alpha / 2.0))
    steep = far / deviation if deviation > 0.0 else math.inf
    sides = (
        (sums.mean, sums.bits, sums.rare),
        (sums.n - sums.mean, sums.bits[::-1], sums.rare[::-1]),
    )
    shifts = []
    for mean, bits, rare in sides:
        likely = mean + sums.n * radius + far * deviation
        critical = _critical_hits(mean, bits, rare, math.log(alpha / 2.0), radius, likely, steep)
        # A shift y adds no more than y to the variance: y - z sqrt(variance + y) = off.
        off = critical - mean
        root = (z + math.sqrt(z * z + 4.0 * (off + sums.variance))) / 2.0
        shift = root * root - sums.variance
        if critical <= sums.n and shift <= sums.n - mean:
            shifts.append(shift / sums.n)
    return max(shifts, default=math.inf)


def _critical_hits(
    mean: float,
    bits: Ints,
    rare: Floats,
    log_tail: float,
    radius: float,
    likely: float,
    steep: float,
) -> int:
    """Fewest hits whose upper tail is below ``log_tail``, n + 1 if there are none.

    The search starts at ``likely``, where the log tail falls by about ``steep`` a hit.
    """
    least, most = math.floor(mean), int(bits.sum()) + 1
    middle, steps = math.ceil(likely), 0
    while most - least > 1:
        if steps == _NEWTON_STEPS:
            middle = (least + most) // 2
        else:
            steps += 1
        middle = min(max(middle, least + 1), most - 1)
        gap = _log_upper_tail(middle, bits, rare, radius) - log_tail
        least, most = (least, middle) if gap < 0.0 else (middle, most)
        middle = math.ceil(max(0.0, middle + gap / steep))
    return most


# Sums of a score, and of its moments under P.
#
# Constant memory in the number of tokens, and shards add. Sums built from repeated contexts
# also keep the law of each context, from which the whole law of the sum follows.


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreTable:
    """Laws of a score in repeated contexts.

    ``totals``: float64 (contexts,), tokens emitted in each context. ``rows``, ``scores``: float64
    (contexts, V), law of the token, and its score.
    """

    totals: Floats
    rows: Floats
    scores: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSums:
    """Sums over tokens of a score and its moments; those of disjoint samples add up.

    Rows and scores of repeated contexts are kept, not copied: leave them as they are. ``n``:
    tokens. ``deviation``: sum of the scores less their expectations under P. ``variance``,
    ``third``, ``fourth``: sums of the conditional central moments under P. ``ranges``: sum of the
    conditional ranges, max less min over the support of P. ``width``: no conditional range exceeds
    it; declared beforehand. ``tables``: the laws themselves; None if a
    part of the tokens was streamed.
    """

    n: int
    deviation: float
    variance: float
    third: float
    fourth: float
    ranges: float
    width: float
    tables: tuple[ScoreTable, ...] | None = None

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        tables = _joined_tables(self.tables, other.tables)
        return add_fields(self, other, width=max(self.width, other.width), tables=tables)


def _joined_tables(
    first: tuple[ScoreTable, ...] | None, second: tuple[ScoreTable, ...] | None
) -> tuple[ScoreTable, ...] | None:
    """Tables of both; the same contexts, as the shards of a run have them, are kept once."""
    if first is None or second is None:
        return None
    tables = list(first)
    for new in second:
        for i, old in enumerate(tables):
            if new.rows is old.rows and new.scores is old.scores:
                totals = old.totals + new.totals
                tables[i] = ScoreTable(totals=totals, rows=old.rows, scores=old.scores)
                break
        else:
            tables.append(new)
    return tuple(tables)


def score_sums_of_contexts(counts: Any, rows: Any, scores: Any) -> ScoreSums:
    """Sum up the scores of tokens counted per context.

    ``counts``: int (contexts, V), emitted tokens per context. ``rows``: float64 (contexts, V),
    target rows; each sums to 1. Shards that pass the very same array keep it once. ``scores``:
    float64 (contexts, V), finite scores of the tokens. Raises ``ValueError`` if there is no token,
    counts are negative or not integers, shapes differ, V < 2, a row is no law or a score is not
    finite.
    """
    array, law = check_count_rows("counts", counts, rows)
    law, values = check_scores(law, scores, 2)
    n = int(array.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token: skip this slot")
    moments = score_moments(law, values)
    totals = array.sum(axis=1).astype(np.float64)
    widths = moments.high - moments.low
    return ScoreSums(
        n=n,
        deviation=float((array * center_scores(law, values)).sum()),
        variance=float(totals @ moments.variance),
        third=float(totals @ moments.third),
        fourth=float(totals @ moments.fourth),
        ranges=float(totals @ widths),
        width=float(widths.max()),
        tables=(ScoreTable(totals=totals, rows=law, scores=values),),
    )


def score_sums(
    score: Any,
    *,
    mean: Any,
    variance: Any,
    third: Any,
    fourth: Any,
    low: Any,
    high: Any,
    width: float,
) -> ScoreSums:
    """Sum up the scores of single tokens, each with its own law.

    ``score``: float64 (n,), score of the emitted token; n fixed beforehand. ``mean``, ``variance``,
    ``third``, ``fourth``, ``low``, ``high``: float64 (n,), moments of the score given all that came
    before, as :class:`ScoreMoments` has them. ``width``: no ``high - low`` exceeds it, whatever the
    contexts: 1 for ``accept``, 2 for ``contrast``, the cap for ``surprise``. Raises ``ValueError``
    if shapes differ, n is 0, a number is not finite, a variance or fourth moment is negative, a
    range exceeds ``width`` or ``width`` is not positive.
    """
    names = ("score", "mean", "variance", "third", "fourth", "low", "high")
    parts = (score, mean, variance, third, fourth, low, high)
    arrays = {x: np.asarray(y, dtype=np.float64) for x, y in zip(names, parts, strict=True)}
    shape = arrays["score"].shape
    for name, array in arrays.items():
        if array.ndim != 1 or array.shape != shape or array.size == 0:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} = (n,), n >= 1")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is NaN or infinite somewhere, expected finite numbers")
    if min(arrays["variance"].min(), arrays["fourth"].min()) < 0.0:
        raise ValueError("a variance or fourth moment is negative, expected central moments")
    width = check_positive_float("width", width)
    widths = arrays["high"] - arrays["low"]
    if widths.min() < 0.0 or widths.max() > width * (1.0 + 1e-9):
        raise ValueError(
            f"high - low spans {widths.min():g}..{widths.max():g}, expected 0..width = {width:g}"
        )
    return ScoreSums(
        n=shape[0],
        deviation=float((arrays["score"] - arrays["mean"]).sum()),
        variance=float(arrays["variance"].sum()),
        third=float(arrays["third"].sum()),
        fourth=float(arrays["fourth"].sum()),
        ranges=float(widths.sum()),
        width=width,
    )


# Tail of a sum of scores from its exact cumulant generating function, by Lugannani and Rice.


_MAX_STEPS = 200  # steps to a critical point; a few do, unless the law is beyond floating point
_MAX_SADDLE_TILT = 1e6
"""Nats per widest range of a token's scores at which a sum is as good as at its maximum."""


def lugannani_rice(tilt: float, value: float, mean: float, variance: float) -> float:
    """Log of P(X >= mean), from X's cumulant generating function and derivatives at ``tilt``.

    ``tilt`` > 0. Chernoff's bound where it is smaller or the formula breaks down: at X's mean
    and at the end of its support.
    """
    exponent = max(tilt * mean - value, 0.0)
    signed, unsigned = math.sqrt(2.0 * exponent), tilt * math.sqrt(variance)
    if signed < 1e-3 or unsigned == 0.0:
        return -exponent
    mills = math.sqrt(math.pi / 2.0) * float(scipy.special.erfcx(signed / math.sqrt(2.0)))
    factor = mills + 1.0 / unsigned - 1.0 / signed
    log_density = -exponent - 0.5 * math.log(2.0 * math.pi)
    return min(-exponent, log_density + math.log(factor)) if factor > 0.0 else -exponent


@dataclass(frozen=True, eq=False)
class ScoreSumLaw:
    """Law of ``sign`` times a sum of centred scores over repeated contexts.

    The tail of a sum on a lattice is read half a step nearer the mean, as a continuity
    correction does; the step is not known, so that the widest gap between neighbouring
    scores stands for it, which never makes a tail too light.

    Source: Lugannani and Rice, "Saddle point approximation for the distribution of the sum of
    independent random variables", Advances in Applied Probability 12 (1980) 475-490.
    """

    tables: tuple[ScoreTable, ...]
    reach: float
    width: float
    half_step: float

    @classmethod
    def of(cls, tables: tuple[ScoreTable, ...], sign: float) -> "ScoreSumLaw":
        """Centre the scores; contexts without a token drop out."""
        centred, reach, width, step = [], 0.0, 0.0, 0.0
        for table in tables:
            seen = table.totals > 0.0
            totals, rows = table.totals[seen], table.rows[seen]
            scores = sign * center_scores(rows, table.scores[seen])
            # What cannot happen must not be the maximum: it becomes a twin of what can.
            likeliest = scores[np.arange(len(rows)), rows.argmax(axis=1)]
            scores = np.where(rows > 0.0, scores, likeliest[:, None])
            centred.append(ScoreTable(totals=totals, rows=rows, scores=scores))
            reach += float(totals @ scores.max(axis=1))
            width = max(width, float(np.ptp(scores, axis=1).max(initial=0.0)))
            step = max(step, float(np.diff(np.sort(scores, axis=1), axis=1).max(initial=0.0)))
        return cls(tuple(centred), reach, width, step / 2.0)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Cumulant generating function and its first two derivatives."""
        value = first = second = 0.0
        for table in self.tables:
            top = table.scores.max(axis=1)
            weight = table.rows * np.exp(tilt * (table.scores - top[:, None]))
            mass = weight.sum(axis=1)
            mean = (weight * table.scores).sum(axis=1) / mass
            spread = (weight * (table.scores - mean[:, None]) ** 2).sum(axis=1) / mass
            value += float(table.totals @ (np.log(mass) + tilt * top))
            first += float(table.totals @ mean)
            second += float(table.totals @ spread)
        return value, first, second

    def log_sf(self, x: float) -> float:
        """Log of P(sum >= x), x >= 0: an upper bound but for the saddle point's own error."""
        if x > self.reach * (1.0 + 1e-12):
            return -math.inf
        x = x - self.half_step
        deviation = math.sqrt(self.at(0.0)[2])
        if x < 1e-3 * deviation:
            return math.log(0.5)
        tilt = self._tilt(x)
        value, mean, variance = self.at(tilt)
        if tilt >= self._most_tilt and mean < x:
            # The saddle point lies further out: every tilt bounds the tail.
            return min(value - tilt * x, 0.0)
        return lugannani_rice(tilt, value, mean, variance)

    def critical(self, log_tail: float) -> float:
        """Smallest x whose log tail is ``log_tail``, inf if the sum does not reach it."""
        deviation = math.sqrt(self.at(0.0)[2])
        if self.reach <= 0.0 or deviation == 0.0:
            return math.inf
        # A sum of rare events deviates by less than one of them adds.
        scale = max(deviation, self.width)
        least = 0.05 / scale
        tilt = max(-float(scipy.special.ndtri_exp(log_tail)) / scale, least)  # a normal sum's
        low, high = least, math.inf
        for _ in range(_MAX_STEPS):
            value, mean, variance = self.at(tilt)
            gap = lugannani_rice(tilt, value, mean, variance) - log_tail
            if gap > 0.0 and (mean > self.reach * (1.0 - 1e-9) or tilt >= self._most_tilt):
                return math.inf
            low, high = (tilt, high) if gap > 0.0 else (low, tilt)
            # Newton's method: the exponent K(t) - t K'(t) falls by t K''(t).
            following = tilt + gap / (tilt * variance) if variance > 0.0 else math.inf
            if not low < following < high:
                following = 1.25 * tilt if math.isinf(high) else (low + high) / 2.0
            if abs(following - tilt) <= 1e-4 * tilt:
                return mean + (following - tilt) * variance + self.half_step
            tilt = min(following, self._most_tilt)
        return math.inf

    @property
    def _most_tilt(self) -> float:
        """Where the sum is as good as at its maximum, in nats per unit."""
        return _MAX_SADDLE_TILT / self.width if self.width > 0.0 else math.inf

    def _tilt(self, x: float) -> float:
        """Tilt at which the mean is x; ``_most_tilt`` if it is there or beyond."""
        # The variance of rare events rises too fast for a first step from 0.
        start = min(x / self.at(0.0)[2], 1.0 / self.width)
        return _saddle_point(self.at, x, start, self._most_tilt, 1e-10)


def _saddle_point(
    cumulants: Callable[[float], tuple[float, float, float]],
    point: float,
    start: float,
    most: float,
    tolerance: float,
) -> float:
    """Tilt above 0 at which the mean is ``point``, by Newton's method kept in its bracket.

    ``most`` if it is there or beyond.
    """
    low, high, tilt = 0.0, math.inf, start
    for _ in range(_MAX_STEPS):
        _, mean, variance = cumulants(tilt)
        low, high = (tilt, high) if mean < point else (low, tilt)
        if math.isinf(high) and tilt >= most:
            break
        following = tilt + (point - mean) / variance if variance > 0.0 else math.inf
        if not low < following < high:
            following = 2.0 * tilt if math.isinf(high) else (low + high) / 2.0
        following = min(following, most)
        if abs(following - tilt) <= tolerance * tilt:
            break
        tilt = following
    return tilt


# The test of a score: whether its mean under the emitted law is the one under P.


NORMAL_MARGIN = 0.05
"""Largest relative error of a normal tail, by its next two terms, that is put up with."""

_TILTS = 2.0 ** (np.arange(13) / 2.0)
_MAX_SCORE_TILT = 500.0
"""Of one token's width, for very few tokens; beyond it an exponential overflows."""

_MIN_DEVIATION = 1e-60
"""Of the sum, in units of the width; a smaller one has no normal law in floating point."""


def score_test(
    sums: ScoreSums, *, alpha: float, ball: float = 0.0, name: str = "score"
) -> TestResult:
    """Test that a score has its mean under P, two-sided.

    Repeated contexts get the tail of Lugannani and Rice from the exact law of the sum. Streamed
    tokens get a normal tail, widened by ``NORMAL_MARGIN``, as far out as its next two terms are
    below that together; beyond, a bound that holds for every martingale: 1/E for E the mean over 13
    tilts t of exp(t S - K(t)), K from four moments and the width (Bennett's inequality carried two
    terms further). ``statistic`` is the mean deviation. Indicators are better served by
    :func:`indicator_test`. ``sums``: of n tokens, n fixed beforehand. ``ball``: TV
    distance eps by which each conditional law may be off: the mean may then be off by eps times the
    mean range, the variance by eps times width times mean range. Raises ``ValueError`` if alpha is
    outside (0, 1) or ball outside [0, 1).

    Source: Bennett, "Probability inequalities for the sum of independent random variables", JASA 57
    (1962) 33-45; Freedman, "On tail probabilities for martingales", Annals of Probability 3 (1975)
    100-118.
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    tail = _ScoreTail(sums, 1.0 if sums.deviation >= 0.0 else -1.0, radius)
    log_p, law = tail.log_sf(abs(sums.deviation))
    return TestResult(
        name=name,
        statistic=sums.deviation / sums.n,
        log_pvalue=min(0.0, math.log(2.0) + log_p),
        alpha=alpha,
        n=sums.n,
        method=with_row_tolerance(f"mean score, {law}", radius),
        min_detectable=score_min_detectable(sums, alpha=alpha, ball=radius),
        deviation="shift of the mean score",
    )


class _ScoreTail:
    """One side of the law of a sum of centred scores, ball included."""

    def __init__(self, sums: ScoreSums, sign: float, radius: float) -> None:
        self.drift = radius * sums.ranges
        extra_variance = radius * sums.width * sums.ranges
        self.variance = sums.variance + extra_variance
        self.third = sign * sums.third + extra_variance * sums.width
        self.fourth = sums.fourth + extra_variance * sums.width**2
        self.n, self.width, self.ranges = sums.n, sums.width, sums.ranges
        # Scores are centred with an error of an ulp each.
        self.rounding = 1e-14 * sums.n * sums.width
        # A ball's larger variance shrinks the point at which the exact law is read.
        self.shrink = math.sqrt(sums.variance / self.variance) if self.variance > 0.0 else 1.0
        exact = sums.tables is not None and sums.variance > 0.0
        self.exact = ScoreSumLaw.of(sums.tables or (), sign) if exact else None

    def log_sf(self, x: float) -> tuple[float, str]:
        """Log of P(sum >= x), x >= 0, and the law that gives it."""
        x -= self.drift
        # A range without a variance is too small for its square.
        if x <= self.rounding or (self.variance == 0.0 and self.ranges > 0.0):
            return math.log(0.5), "exact"
        if self.variance == 0.0:
            return -math.inf, "exact"
        if self.exact is not None:
            return self.exact.log_sf(x * self.shrink), "Lugannani-Rice from the exact law"
        # A tail falls: where the normal law ends, its last value still bounds what is beyond.
        z, last = x / math.sqrt(self.variance), self._normal_end
        normal = NORMAL_MARGIN + log_normal_sf(min(z, last))
        if z <= last:
            return min(math.log(0.5), normal), "normal law"
        return min(normal, self._log_bound(x)), "martingale bound"

    @cached_property
    def _normal_end(self) -> float:
        """Standard deviations up to which the expansion's next two terms are small enough."""
        from scipy import optimize

        deviation = math.sqrt(self.variance) / self.width
        if deviation < _MIN_DEVIATION:
            return 0.0
        # What each token's squared variance takes off the fourth cumulant is left out; no fourth
        # moment is below the squared variance, which keeps a rounded one from 0.
        cubic = abs(self.third) / self.width**3 / deviation**3 / 6.0
        quartic = max(self.fourth / self.width**4 / deviation**4, 1.0 / self.n) / 24.0
        # A little beyond where the quartic term alone would end it, so that the end lies inside
        # also where there is no cubic one.
        most = 1.01 * (NORMAL_MARGIN / quartic) ** 0.25
        return float(
            optimize.brentq(lambda z: cubic * z**3 + quartic * z**4 - NORMAL_MARGIN, 0.0, most)
        )

    def _log_bound(self, x: float) -> float:
        # The tilts that matter: from the largest variance that n and width allow down to a
        # 4096th of it, for tails near 1e-9. They may depend on n and width alone.
        y = np.minimum(_TILTS * math.sqrt(160.0 / self.n), _MAX_SCORE_TILT)
        tilts = y / self.width
        rest = np.where(
            y < 0.05,
            1.0 / 24.0 + y / 120.0 + y * y / 600.0,
            (np.expm1(y) - y - y**2 / 2.0 - y**3 / 6.0) / y**4,
        )
        bound = tilts**2 * self.variance / 2.0 + tilts**3 * self.third / 6.0
        bound += tilts**4 * self.fourth * rest
        wealth = float(scipy.special.logsumexp(tilts * x - bound)) - math.log(tilts.size)
        # A two-sided p-value doubles it; half of 1 is as much as a tail can be.
        return min(math.log(0.5), -wealth)

    def critical(self, log_tail: float, reach: float) -> float:
        """Smallest x whose log tail is below ``log_tail``, inf if above ``reach``."""
        from scipy import optimize

        if self.variance == 0.0:
            return self.drift + self.rounding
        if self.exact is not None:
            return self.exact.critical(log_tail) / self.shrink + self.drift
        if self.log_sf(reach)[0] > log_tail:
            return math.inf
        root: float = optimize.brentq(
            lambda x: self.log_sf(x)[0] - log_tail, self.drift, reach, xtol=1e-300, rtol=1e-6
        )
        return root


def score_min_detectable(
    sums: ScoreSums, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Every possible shift of the mean score of at least this size is found with this power.

    ``sums`` stands for its null moments alone; its ``deviation`` does not matter. inf if no shift
    that is possible is promised. A shift of d is a TV distance of d / width at least. Raises
    ``ValueError`` if alpha or power is outside (0, 1) or ball outside [0, 1).
    """
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    radius = check_row_tolerance(ball)
    z, width = float(scipy.special.ndtri(power)), sums.width
    shifts = []
    for sign in (1.0, -1.0):
        tail = _ScoreTail(sums, sign, radius)
        off = tail.critical(math.log(alpha / 2.0), sums.ranges)
        if off > sums.ranges or width == 0.0:
            continue
        # A shift y adds no more than y width to the variance.
        root = (z * width + math.sqrt((z * width) ** 2 + 4.0 * (sums.variance + off * width))) / 2
        shift = (root * root - sums.variance) / width
        if shift <= sums.ranges:
            shifts.append(shift / sums.n)
    return max(shifts, default=math.inf)


# Upper tails of sums of independent finite variables, from their exact cumulant function.
#
# A sum is kept as its deficit: how far each token's value lies below the largest one of its
# context. Differences of near numbers are exact in floating point, and a sum of numbers that are
# not negative keeps its digits. So values that differ by an ulp, as those of a ratio do that
# should be constant, are judged like any others: what was seen and what could have been are the
# same numbers, and no tolerance stands between them.

# Where the tilt passes this many nats per range of a value, the sum is at its maximum.
_MAX_SUM_TILT = 1e4


def sum_deficit(values: Floats, probabilities: Floats, counts: Ints) -> float:
    """How far the sum of the ``counts`` int64 (contexts, V) lies below the largest there is.

    Tokens of probability 0 do not count. Other parameters are those of :func:`log_sum_sf`.
    """
    deficits, possible = _value_deficits(values, probabilities)
    return float(np.where(possible, counts * deficits, 0.0).sum())


def log_sum_sf(values: Floats, probabilities: Floats, totals: Ints, deficit: float) -> float:
    """Log of P(the sum lacks at most ``deficit``), never above the Chernoff bound.

    The saddle-point formula of Lugannani and Rice in its form for a lattice of step h: at the
    saddle point t, (1 - exp(-t h)) / h stands for t. h is the widest range of values in one
    context, so that every lattice hidden in them is covered. At or below the mean the answer is
    that no token made the sum -inf: no test rejects there. ``values``: float64 (contexts, V), what
    a token adds; -inf for one that makes the sum -inf. Entries of probability 0 are ignored.
    ``probabilities``: float64 (contexts, V), rows that sum to 1. ``totals``: int64 (contexts,),
    tokens drawn from each row. ``deficit``: as :func:`sum_deficit` has it of the tokens seen; -inf
    below 0, which no sum reaches.

    Source: [1] Lugannani and Rice, "Saddle point approximation for the distribution of the sum of
    independent random variables", Adv. Appl. Prob. 12, 1980; [2] Daniels, "Tail probability
    approximations", Int. Stat. Rev. 55, 1987 (section 6, lattices).
    """
    law = _DeficitLaw(values, probabilities, totals)
    if math.isinf(law.log_mass) or deficit < 0.0:
        return -math.inf
    if deficit == 0.0:
        return law.log_mass + law.log_at_most
    point = -deficit / law.widest if law.widest > 0.0 else 0.0
    if point <= law.cumulants(0.0)[1]:
        return law.log_mass
    t = law.saddle_point(point)
    k, mean, variance = law.cumulants(t)
    if mean < point and t >= _MAX_SUM_TILT:
        # The saddle point lies further out: every tilt bounds the tail, none but it is close.
        return law.log_mass + min(k - t * point, 0.0)
    # The formula knows t by way of t sqrt(variance) alone, where the step stands for it.
    step = -math.expm1(-t)
    return law.log_mass + lugannani_rice(t, k, point, variance * (step / t) ** 2)


def log_sum_bound(
    values: Floats, probabilities: Floats, totals: Ints, threshold: float, *, ball: float
) -> float:
    """Upper bound on log P(sum >= ``threshold``) for all rows within TV ``ball`` of these.

    Chernoff's bound: the expectation of exp(t value) grows by at most ``ball`` times its
    range over all tokens of the row, those of probability 0 included. Parameters are those
    of :func:`log_sum_sf`; no value is +inf.
    """
    from scipy import optimize

    used = totals > 0
    rows, number = probabilities[used], totals[used].astype(np.float64)
    rows = rows / rows.sum(axis=1, keepdims=True)
    most = values[used].max(axis=1)
    deficits = most[:, None] - values[used]
    widths, lacked = deficits.max(axis=1), float(number @ most) - threshold

    def exponent(t: float) -> float:
        moments = (rows * np.exp(-t * deficits)).sum(axis=1) - ball * np.expm1(-t * widths)
        return float(number @ np.log(moments)) + t * lacked

    best = optimize.minimize_scalar(exponent, bounds=(1e-9, 4.0), method="bounded")
    return min(0.0, float(best.fun))


def _value_deficits(values: Floats, rows: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """How far each value lies below its context's largest, and which are possible and finite."""
    possible = (rows > 0.0) & (values > -math.inf)
    most = np.where(possible, values, -math.inf).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a context whose tokens are all excluded
        deficits = np.where(possible, most - values, 0.0)
    return deficits, possible


class _DeficitLaw:
    """The law of minus the deficit, given that no token made the sum -inf.

    It is in units of the ``widest`` range of values in one context. ``log_mass`` is the log
    probability of what is given, ``log_at_most`` that of a deficit of 0 then.
    """

    def __init__(self, values: Floats, probabilities: Floats, totals: Ints) -> None:
        used = totals > 0
        rows, self.totals = probabilities[used], totals[used].astype(np.float64)
        deficits, possible = _value_deficits(values[used], rows)
        masses = np.where(possible, rows, 0.0).sum(axis=1)
        # Where nothing is excluded the mass is 1, whatever the row's last digits say.
        whole = (possible == (rows > 0.0)).all(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that has no such token
            self._log_rows = np.where(possible, np.log(rows / masses[:, None]), -math.inf)
            log_masses = np.where(whole, 0.0, np.log(masses / rows.sum(axis=1)))
        self.log_mass = float(self.totals @ log_masses)
        at_most = np.where(deficits == 0.0, self._log_rows, -math.inf)
        varies = (deficits > 0.0).any(axis=1)
        self.log_at_most = float(
            self.totals @ np.where(varies, scipy.special.logsumexp(at_most, axis=1), 0.0)
        )
        self.widest = float(deficits.max(initial=0.0))
        self._values = -deficits / self.widest if self.widest > 0.0 else deficits

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Value of the sum's cumulant function at ``t`` and of its first two derivatives."""
        logs = self._log_rows + t * self._values
        top = logs.max(axis=1)
        tilted = np.exp(logs - top[:, None])
        masses = tilted.sum(axis=1)
        k = top + np.log(masses)
        tilted /= masses[:, None]
        means = (tilted * self._values).sum(axis=1)
        variances = (tilted * (self._values - means[:, None]) ** 2).sum(axis=1)
        return float(self.totals @ k), float(self.totals @ means), float(self.totals @ variances)

    def saddle_point(self, point: float) -> float:
        """Find the t > 0 at which the tilted mean is ``point``, at most ``_MAX_SUM_TILT``."""
        _, mean, variance = self.cumulants(0.0)
        start = min((point - mean) / variance, _MAX_SUM_TILT) if variance > 0.0 else _MAX_SUM_TILT
        return _saddle_point(self.cumulants, point, start, _MAX_SUM_TILT, 1e-11)
