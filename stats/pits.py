"""Randomised PITs: their values on plain rows, their distribution, and pairs of them.

A pair is two tokens at a lag; three sums that stream by say how its PITs correlate.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy

from simverify.stats._checks import (
    Floats,
    TestResult,
    add_fields,
    check_counts,
    check_open_unit,
    check_positive_float,
    check_positive_int,
    check_probability_rows,
    check_row_tolerance,
    smallest_n,
    with_row_tolerance,
)
from simverify.stats.evalues import BetSums, bet_sums
from simverify.stats.tails import KSTWO_EXACT_MAX, log_kstwo_sf, log_normal_sf

# Correlation of paired emissions: the randomised PITs of a lag, as three sums.


MIN_PAIRS = 4000  # below, the normal tail of the correlation is not trusted
_TAIL_FACTOR = 1.1
"""By what the normal tail is multiplied, so that it is not too light down to 1e-9."""


@dataclass(frozen=True, kw_only=True)
class PairSums:
    """Sums over pairs of PITs (u, v); those of disjoint samples add up.

    ``products`` is the sum of (u - 1/2)(v - 1/2), ``spreads`` that of abs(u - 1/2).
    """

    n: int
    products: float
    spreads: float

    def __add__(self, other: "PairSums") -> "PairSums":
        return add_fields(self, other)


def pair_sums(first: Any, second: Any) -> PairSums:
    """Sum up pairs of PITs: tokens at a lag in a row, or rows of a batch.

    ``first``, ``second``: float64 (n,), PITs in [0, 1]; ``second`` is emitted after ``first``, or
    by another row. Pairs may overlap, as those of a lag do. Raises ``ValueError`` if shapes differ,
    n is 0 or a PIT is NaN or outside [0, 1].
    """
    u, v = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if u.ndim != 1 or u.shape != v.shape or u.size == 0:
        raise ValueError(f"first, second have shapes {u.shape}, {v.shape}, expected (n,), n >= 1")
    if not all(side.min() >= 0.0 and side.max() <= 1.0 for side in (u, v)):
        raise ValueError("a PIT is NaN or outside [0, 1], expected F(x-) + v P(x)")
    return PairSums(
        n=u.size,
        products=float(((u - 0.5) * (v - 0.5)).sum()),
        spreads=float(np.abs(u - 0.5).sum()),
    )


def pit_correlation(
    sums: PairSums, *, alpha: float, ball: float = 0.0, name: str = "correlation"
) -> TestResult:
    """Test that the randomised PITs of paired emissions are uncorrelated.

    Given the earlier PITs each product of centred PITs has mean zero, so that overlapping pairs do
    no harm, and variance 1/144 on average. At a lag their sum has a tail heavier than the normal
    one, by a twentieth at six standard deviations of ``MIN_PAIRS`` pairs; a tenth is added.
    ``sums``: of n pairs, n fixed beforehand. ``ball``: TV distance by which each conditional law
    may be off: a product's mean may then be that times abs(u - 1/2). The ``statistic`` is the
    correlation; ``min_detectable`` that of a bivariate law. Raises ``ValueError`` if there are
    fewer than ``MIN_PAIRS`` pairs, alpha is outside (0, 1) or ball outside [0, 1).
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    n = _check_pair_count(sums.n)
    correlation = 12.0 * sums.products / n
    excess = abs(correlation) - 12.0 * radius * sums.spreads / n
    z = max(excess, 0.0) * math.sqrt(n / _max_pit_variance(radius))
    return TestResult(
        name=name,
        statistic=correlation,
        log_pvalue=min(0.0, math.log(2.0 * _TAIL_FACTOR) + log_normal_sf(z)),
        alpha=alpha,
        n=n,
        method=with_row_tolerance("correlation of randomised PITs, normal law", radius),
        min_detectable=correlation_min_detectable(n, alpha=alpha, ball=radius),
        deviation="correlation of PITs",
    )


def _check_pair_count(n: int) -> int:
    if n < MIN_PAIRS:
        raise ValueError(f"there are {n} pairs, expected {MIN_PAIRS} or more")
    return check_positive_int("n", n)


def _max_pit_variance(radius: float) -> float:
    """Largest conditional variance of a PIT within the ball, in units of 1/12."""
    return 1.0 + 3.0 * radius


def correlation_min_detectable(
    n: int, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Smallest correlation of PITs that ``n`` pairs find with this power, inf if above 1.

    Raises ``ValueError`` if n is below ``MIN_PAIRS``, alpha or power outside (0, 1) or ball outside
    [0, 1).
    """
    n, radius = _check_pair_count(n), check_row_tolerance(ball)
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    z = float(scipy.special.ndtri(power) - scipy.special.ndtri(alpha / (2.0 * _TAIL_FACTOR)))
    # A PIT lies 1/4 from 1/2 on average, and its law's ball adds half its radius at most.
    drift = 12.0 * radius * (0.25 + radius / 2.0)
    detectable = drift + z * math.sqrt(_max_pit_variance(radius) / n)
    return detectable if detectable < 1.0 else math.inf


def correlation_samples(
    correlation: float, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> int:
    """Pairs that find this correlation of PITs; ``MIN_PAIRS`` at least.

    Raises ``ValueError`` if ``correlation`` is not positive, no number of pairs finds it, alpha or
    power is outside (0, 1) or ball outside [0, 1).
    """
    correlation = check_positive_float("correlation", correlation)

    detectable = partial(correlation_min_detectable, alpha=alpha, power=power, ball=ball)
    least = smallest_n(
        lambda n: detectable(max(n, MIN_PAIRS)) <= correlation, f"correlation {correlation:g}"
    )
    return max(least, MIN_PAIRS)


# Kolmogorov-Smirnov on a streamed histogram of randomised PITs.
#
# Under the null the PITs of emitted tokens are independent uniforms, whatever the vocabulary
# and the contexts. A histogram of fixed bins is all that is kept of them, so shards just add.


PIT_BINS = 2**16  # equal bins over [0, 1) that the simulators fill


def edge_distance(histogram: Any) -> tuple[float, int]:
    """Kolmogorov-Smirnov distance from the uniform law at the bin edges, and the sample size.

    The distance of the sample itself is at least this and at most one bin's width more. Raises
    ``ValueError`` if ``histogram`` is not (bins,) non-negative integers with 2 or more bins, or
    empty.
    """
    bins = check_counts("histogram", histogram, 1)
    if bins.size < 2:
        raise ValueError(f"histogram has {bins.size} bins, expected 2 or more ({PIT_BINS})")
    n = int(bins.sum())
    if n == 0:
        raise ValueError("histogram is empty, expected at least one token")
    edges = np.arange(1, bins.size) / bins.size
    return float(np.abs(np.cumsum(bins)[:-1] / n - edges).max()), n


def pit_ks(histogram: Any, *, alpha: float, ball: float = 0.0, name: str = "PIT") -> TestResult:
    """Test that randomised PITs are uniform, by Kolmogorov-Smirnov at the bin edges.

    The statistic looks at the bin edges alone, so it never exceeds the sample's own D, whose exact
    tail it is compared with: the true size is at most alpha. What that costs in power, one bin's
    width, is added to ``min_detectable``: the sup-norm distance D of the PITs' law from uniform. It
    equals the mean one-token TV distance if P'/P is monotone, in the same direction in every
    context, in the order of tokens that the PITs use (P' the emitted law, P the target's); for
    other deviations D is smaller than the TV distance. ``histogram``: int (bins,), counts of the
    PITs over equal bins of [0, 1); the tokens are the first n emitted, n fixed beforehand. Any
    order of the vocabulary will do (:data:`Order`). ``ball``: TV distance by which each conditional
    law may be off: D may then be so much larger. Raises ``ValueError`` if ``histogram`` is not
    (bins,) non-negative integers with 2 or more bins, it is empty, alpha is outside (0, 1) or ball
    outside [0, 1).
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    distance, n = edge_distance(histogram)
    bins = int(np.asarray(histogram).size)
    law = "exact law" if n <= KSTWO_EXACT_MAX else "limit law"
    return TestResult(
        name=name,
        statistic=distance,
        log_pvalue=log_kstwo_sf(max(distance - radius, 0.0), n),
        alpha=alpha,
        n=n,
        method=with_row_tolerance(f"Kolmogorov-Smirnov at {bins} bin edges, {law}", radius),
        min_detectable=ks_min_detectable(n, alpha=alpha, bins=bins, ball=radius),
        deviation="sup distance of the PITs from uniform",
    )


def ks_min_detectable(
    n: int, *, alpha: float, power: float = 0.9, bins: int = PIT_BINS, ball: float = 0.0
) -> float:
    """Smallest D of the PITs' law from uniform found with this power, inf if there is none.

    At alpha 1e-6 and power .9 it is 3.33 / sqrt(n) and one bin: Massart's critical value, which the
    exact one never exceeds, and the normal law of the empirical CDF where the distance is largest,
    with its largest standard deviation. Raises ``ValueError`` if n < 1, bins < 2, alpha or power is
    outside (0, 1) or ball outside [0, 1).
    """
    n, bins = check_positive_int("n", n), check_positive_int("bins", bins, 2)
    distance = _ks_constant(alpha, power) / math.sqrt(n) + 1.0 / bins + check_row_tolerance(ball)
    return distance if distance <= 1.0 else math.inf


def ks_samples(
    distance: float, *, alpha: float, power: float = 0.9, bins: int = PIT_BINS, ball: float = 0.0
) -> int:
    """Tokens that find a D of the PITs' law from uniform of ``distance``.

    Raises ``ValueError`` if ``distance`` is not above one bin's width and the ball, bins < 2, alpha
    or power is outside (0, 1) or ball outside [0, 1).
    """
    distance, bins = check_positive_float("distance", distance), check_positive_int("bins", bins, 2)
    unseen = 1.0 / bins + check_row_tolerance(ball)
    if distance <= unseen:
        what = "one bin and the ball" if ball else "one bin"
        raise ValueError(f"distance is {distance}, expected more than {what}, {unseen:.3g}")
    return math.ceil((_ks_constant(alpha, power) / (distance - unseen)) ** 2)


def _ks_constant(alpha: float, power: float) -> float:
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    return math.sqrt(math.log(2.0 / alpha) / 2.0) + float(scipy.special.ndtri(power)) / 2.0


# Randomised PITs of plain rows in any order of the vocabulary.
#
# A token x has u = F(x-) + v P(x), F(x-) the mass of the tokens before x in the order and v
# uniform. Under the null u is uniform, whatever the order, if it is fixed by the prefix, the
# rows and earlier outcomes: never by the draft token.


Order = Literal["ratio", "index", "descending"]


def order_key(order: Order, p: Any, q: Any = None) -> Floats:
    """Keys by whose ascent tokens are ordered; ties go by token id.

    ``ratio`` is q / p: faults of the acceptance line up across contexts. ``index`` is the token id,
    ``descending`` the likeliest token first; neither needs ``q``. ``p``, ``q``: float64 (n, V),
    target and draft rows; each sums to 1. Returns float64 (n, V): no NaN; inf for q / p where p is
    0, whose place does not matter. Raises ``ValueError`` if ``order`` is unknown, a row is no law,
    shapes differ or ``ratio`` has no ``q``.
    """
    rows = check_probability_rows("p", p)
    if order == "index":
        return np.broadcast_to(np.arange(rows.shape[1], dtype=np.float64), rows.shape)
    if order == "descending":
        return -rows
    if order != "ratio":
        raise ValueError(f"order is {order!r}, expected 'ratio', 'index' or 'descending'")
    draft = check_probability_rows("q", q)
    if draft.shape != rows.shape:
        raise ValueError(f"q has shape {draft.shape}, expected {rows.shape} as p")
    with np.errstate(over="ignore"):  # over the smallest floats, which come last in any case
        return np.where(rows > 0.0, draft / np.where(rows > 0.0, rows, 1.0), np.inf)


def pit_bounds(p: Any, key: Any, tokens: Any) -> tuple[Floats, Floats]:
    """Ends of the interval on which the PIT of each token is uniform.

    ``p``: float64 (n, V), law of each token; each row sums to 1. ``key``: float64 (n, V), order of
    the vocabulary, ascending, ties by token id (:func:`order_key`). ``tokens``: int (n,), emitted
    tokens. Returns the ends below and above, float64 (n,): F(x-), and F(x-) + P(x), at most 1; the
    PIT is ``below + v * (above - below)``. Raises ``ValueError`` if a row is no law, shapes differ,
    a key is NaN, tokens are no integers or one is outside 0..V-1.
    """
    rows = check_probability_rows("p", p)
    keys, ids = np.asarray(key, dtype=np.float64), np.asarray(tokens)
    if keys.shape != rows.shape or np.isnan(keys).any():
        raise ValueError(f"key has shape {keys.shape} or a NaN, expected {rows.shape} and none")
    if ids.shape != rows.shape[:1] or ids.dtype.kind not in "iu":
        raise ValueError(f"tokens is {ids.dtype} {ids.shape}, expected integers {rows.shape[:1]}")
    if ids.size and (ids.min() < 0 or ids.max() >= rows.shape[1]):
        raise ValueError(f"tokens span {ids.min()}..{ids.max()}, expected 0..{rows.shape[1] - 1}")
    column = ids[:, None]
    token_keys = np.take_along_axis(keys, column, axis=1)
    before = (keys < token_keys) | ((keys == token_keys) & (np.arange(rows.shape[1]) < column))
    below = np.minimum((rows * before).sum(axis=1), 1.0)
    mass = np.take_along_axis(rows, column, axis=1)[:, 0]
    return below, np.minimum(below + mass, 1.0)


# Repeated streams: the uniform behind an earlier token, used once more for a later one.
#
# A token that is drawn by inversion says where its uniform lay: in the interval of its own mass.
# Were the same uniform used again, the later token's interval, under its own row, would meet it.


STREAM_SHARES = (0.9, 0.5, 0.2, 0.05)  # shares of repeated uniforms that are bet on


def stream_sums(earlier: Any, later: Any) -> BetSums:
    """Bet that the later token of each pair was drawn with the uniform of the earlier one.

    Given that the earlier uniform is uniform on the interval I of its token, a later token with the
    interval J has the chance abs(I and J) / abs(I) if it is used again, and abs(J) under its row.
    Pairs may overlap, and there may be any number of them. ``earlier``, ``later``: float64 (2, n),
    ends of the intervals of two tokens in one order of the vocabulary, as :func:`pit_bounds` gives
    them; ``later`` is that of the token drawn after the other. Raises ``ValueError`` if shapes
    differ, n is 0 or an interval is not inside [0, 1].
    """
    first, second = (np.asarray(x, dtype=np.float64) for x in (earlier, later))
    if first.ndim != 2 or len(first) != 2 or first.shape != second.shape or not first.size:
        raise ValueError(
            f"earlier, later have shapes {first.shape}, {second.shape}, expected (2, n), n >= 1"
        )
    for ends in (first, second):
        if not ((ends >= 0.0) & (ends <= 1.0)).all() or (ends[0] > ends[1]).any():
            raise ValueError("an interval is not inside [0, 1], expected F(x-) and F(x)")
    width, height = first[1] - first[0], second[1] - second[0]
    both = np.maximum(np.minimum(first[1], second[1]) - np.maximum(first[0], second[0]), 0.0)
    # A token of no mass tells nothing of its uniform, or has no chance that could be compared.
    area = width * height
    tells = area > 0.0
    ratio = np.divide(both, area, out=np.ones_like(area), where=tells)
    most = np.divide(1.0, width, out=np.ones_like(area), where=tells)
    # The ends are sums of their own, off by an ulp or so.
    return bet_sums(
        "a repeated uniform",
        np.minimum(ratio, most),
        np.zeros_like(most),
        most,
        shares=STREAM_SHARES,
    )
