"""Upper bounds on the one-token TV distance: plug-in, tightened by the known noise, and monotone.

The plug-in distance of a healthy run is mostly noise, and this noise has a known mean. For a
cell of target probability p whose true probability is p + D, let h(D) = E|X/N - p|, X
binomial. Then E TV(phat, p) = sum h(D)/2, and with c an upper bound on it and any l >= 0

    TV = sum |D|/2 <= l c + sum sup_D (|D|/2 - l h(D)/2).

h is the Bernstein polynomial of a convex function, so it is convex, and its tangents bound it
from below: every supremum is bounded at the corners of a polygon, by no search that could miss
it. At l = 1 no term is above 0, because h(D) >= |D|: the bound never exceeds the plug-in one.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from simverify.stats._checks import Floats, Ints, check_count_rows, check_open_unit
from simverify.stats.pits import edge_distance

# Upper bounds on the one-token TV distance that a healthy run can sign.


@dataclass(frozen=True)
class Certificate:
    """``quantity <= bound`` except with probability ``delta``, under ``assumption``.

    The quantity is the mean one-token total variation distance between the emitted law and
    the target's, over the visited contexts, unless it says otherwise.
    """

    bound: float
    delta: float
    method: str
    assumption: str
    quantity: str = "mean one-token TV"


def best_certificate(*certificates: Certificate) -> Certificate:
    """Return the smallest of several bounds on one quantity, at the sum of their deltas.

    All of them hold except with that probability (Boole), so that the choice is free. Split delta
    over the bounds, and over the looks of a run, before they are computed. Raises ``ValueError`` if
    there are none, they bound different quantities, or their deltas reach 1.
    """
    quantities = {c.quantity for c in certificates}
    if len(quantities) != 1:
        raise ValueError(f"certificates bound {sorted(quantities)}, expected one quantity")
    best = min(certificates, key=lambda c: c.bound)
    delta = check_open_unit("the sum of deltas", math.fsum(c.delta for c in certificates))
    return dataclasses.replace(best, delta=delta)


def plug_in_certificate(counts: Any, probabilities: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance by its plug-in value and a deviation term.

    mean TV <= sum_c (N_c/N) TV(phat_c, P_c) + sqrt(ln(1/delta) / 2N). For the events A_c on which
    the emitted law exceeds P_c, the sum of 1{X in A_c} less its emitted probability is a martingale
    with steps of length 1, and the plug-in value bounds the rate's excess over P_c(A_c) (Azuma and
    Hoeffding). So contexts may depend on earlier tokens. ``counts``: int (contexts, V), emitted
    tokens per context; slots may be stacked as further contexts. ``probabilities``: float64
    (contexts, V), target rows; each sums to 1 within 1e-9. Raises ``ValueError`` if there is no
    token, counts are negative or not integers, shapes differ, V < 2, a row is no law, or delta is
    outside (0, 1).
    """
    array, rows = check_count_rows("counts", counts, probabilities)
    return Certificate(
        bound=min(1.0, plug_in_bound(array, rows, delta)),
        delta=delta,
        method="plug-in TV + sqrt(ln(1/delta) / 2N)",
        assumption="the emitted law of a token depends on its context alone; N fixed beforehand",
    )


def plug_in_bound(counts: Ints, rows: Floats, delta: float) -> float:
    """Return the bound of :func:`plug_in_certificate`, not cut at 1."""
    delta = check_open_unit("delta", delta)
    totals = counts.sum(axis=1, keepdims=True)
    n = int(totals.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token")
    plug_in = float(np.abs(counts - totals * rows).sum()) / (2.0 * n)
    return plug_in + math.sqrt(math.log(1.0 / delta) / (2.0 * n))


def monotone_certificate(histogram: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance from a histogram of ordered PITs.

    mean TV <= 2 (K + sqrt(ln(2/delta) / 2N)), K the distance of :func:`edge_distance` and one bin.
    If P'/P is monotone in the order, the CDF of a context's PITs less u is concave with its maximum
    at TV, so that its integral 1/2 - E[u] is at least TV/2; the mean PIT is within K of 1/2 and, by
    Azuma and Hoeffding, within the root of its expectation. ``histogram``: int (bins,), counts of
    the PITs, in ascending q/p, over equal bins of [0, 1). Raises ``ValueError`` if ``histogram`` is
    not (bins,) non-negative integers with 2 or more bins, it is empty, or delta is outside (0, 1).
    """
    delta = check_open_unit("delta", delta)
    distance, n = edge_distance(histogram)
    distance += 1.0 / np.asarray(histogram).size
    bound = 2.0 * (distance + math.sqrt(math.log(2.0 / delta) / (2.0 * n)))
    return Certificate(
        bound=min(1.0, bound),
        delta=delta,
        method="2 (K + sqrt(ln(2/delta) / 2N))",
        assumption="P'/P is monotone in q/p, in the same direction in every context; "
        "N fixed beforehand",
    )


# Where the tangents touch, in standard deviations of X/N: dense where the suprema lie.
_TANGENT_POINTS = np.concatenate([np.linspace(0.0, 3.0, 21), [3.4, 4.0, 5.0, 7.0, 12.0, 40.0]])
_MULTIPLIERS = np.concatenate([[1.0], 1.0 + np.geomspace(0.003, 30.0, 40)])
# Above the rounding of h, a difference of numbers of the order of p.
_ROUNDING = 1e-13
_CELL_CHUNK = 4096


def dual_certificate(counts: Any, probabilities: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance by its plug-in value less the noise in it.

    mean TV <= min over l >= 1 of [l c + sum sup_D (|D|/2 - l h(D)/2)], c the bound of
    :func:`plug_in_certificate` at the same ``delta``, h(D) = E|X/N - p| for a binomial X, and the
    sum over cells, each weighted by its context's share of the tokens. That c holds by McDiarmid's
    inequality [1]: one token moves the plug-in distance by 1/N at most. ``counts``: int (contexts,
    V), emitted tokens per context; slots may be stacked as further contexts. ``probabilities``:
    float64 (contexts, V), target rows; each sums to 1 within 1e-9. Raises ``ValueError`` if there
    is no token, counts are negative or not integers, shapes differ, V < 2, a row is no law, or
    delta is outside (0, 1).

    Source: [1] McDiarmid, "On the method of bounded differences", Surveys in Combinatorics, 1989;
    [2] Diaconis and Zabell, "Closed form summation for classical distributions: variations on a
    theme of de Moivre", Stat. Sci. 6, 1991 (the mean deviation).
    """
    array, rows = check_count_rows("counts", counts, probabilities)
    plug_in = plug_in_bound(array, rows, delta)
    totals = array.sum(axis=1)
    seen = totals > 0
    n = np.broadcast_to(totals[seen, None], rows[seen].shape)
    # Equal cells have equal suprema.
    cells, copies = np.unique(
        np.stack([rows[seen].ravel(), n.ravel().astype(np.float64)]), axis=1, return_counts=True
    )
    weights = copies * cells[1] / totals.sum()
    # The bounds of all multipliers hold in one and the same event, that c holds.
    bounds = _MULTIPLIERS * plug_in
    for start in range(0, weights.size, _CELL_CHUNK):
        part = slice(start, start + _CELL_CHUNK)
        # An upper bound on sup_D (|D| - l h(D)), weighted and summed over cells, for each l.
        distance, height = _tangent_polygon(cells[0, part], cells[1, part])
        suprema = [(distance - at * height).max(axis=1) for at in _MULTIPLIERS]
        bounds += np.array([weights[part] @ most for most in suprema]) / 2.0
    return Certificate(
        bound=min(1.0, float(bounds.min())),
        delta=delta,
        method="dual: plug-in TV less the mean of its noise, exact binomial",
        assumption="the tokens of a context are independent and of one law; the number of "
        "tokens in each context fixed beforehand",
    )


def _tangent_polygon(p: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Points |D| (cells, k) and heights there of lines below h, their corners included.

    Between two neighbouring points of contact the linear |D| - l (tangent) is largest at a
    point of contact or where the tangents cross; where rounding misplaces the crossing, the
    lower tangent still stands for both.
    """
    points, heights = [], []
    scale = np.maximum(np.sqrt(p * (1.0 - p) / n), 1.0 / n)[:, None]
    for sign, room in ((1.0, 1.0 - p), (-1.0, p)):
        ends = np.broadcast_to(room[:, None], (p.size, 1))
        touch = np.concatenate([np.minimum(_TANGENT_POINTS * scale, ends), ends], axis=1)
        true = p[:, None] + sign * touch
        height, slope = mean_deviation(true, p[:, None], n[:, None], above=sign > 0.0)
        height, slope = height - _ROUNDING, sign * slope
        lines = height - slope * touch
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = (lines[:, :-1] - lines[:, 1:]) / (slope[:, 1:] - slope[:, :-1])
        crossing = np.clip(np.nan_to_num(crossing, nan=0.0), touch[:, :-1], touch[:, 1:])
        first = lines[:, :-1] + slope[:, :-1] * crossing
        second = lines[:, 1:] + slope[:, 1:] * crossing
        points += [touch, crossing]
        heights += [height, np.minimum(first, second)]
    return np.concatenate(points, axis=1), np.concatenate(heights, axis=1)


def mean_deviation(true: Floats, p: Floats, n: Floats, *, above: bool) -> tuple[Floats, Floats]:
    """E|X/n - p| for X binomial(n, ``true``), and its derivative in ``true``.

    De Moivre's closed form. |true - p| is the larger part far from p; the rest is small on
    the side to which ``above`` says that ``true`` lies (at p itself, either).
    """
    true = np.clip(true, 0.0, 1.0)
    k = np.minimum(np.floor(n * p), n)
    # P(Y < k), P(Y <= k) above and P(Y >= k), P(Y > k) below, Y binomial(n - 1, true); then
    # P(X <= k) = (1 - true) P(Y <= k) + true P(Y < k).
    tail = _binomial_cdf if above else _binomial_sf
    lower, upper = tail(k - 1.0, n - 1.0, true), tail(k, n - 1.0, true)
    excess = (p * (1.0 - true)) * upper - (true * (1.0 - p)) * lower
    height = np.abs(true - p) + 2.0 * np.maximum(excess if above else -excess, 0.0)
    middle = 2.0 * k + 1.0 - 2.0 * n * p
    if above:
        return height, 1.0 - upper - lower + middle * (upper - lower)
    return height, upper + lower - 1.0 + middle * (lower - upper)


def _binomial_cdf(k: Floats, n: Floats, p: Floats) -> Floats:
    """P(X <= k), X binomial(n, p)."""
    inside = scipy.special.betaincc(np.maximum(k + 1.0, 1.0), np.maximum(n - k, 1.0), p)
    result: Floats = np.where(k < 0.0, 0.0, np.where(k >= n, 1.0, inside))
    return result


def _binomial_sf(k: Floats, n: Floats, p: Floats) -> Floats:
    """P(X > k), X binomial(n, p)."""
    inside = scipy.special.betainc(np.maximum(k + 1.0, 1.0), np.maximum(n - k, 1.0), p)
    result: Floats = np.where(k < 0.0, 1.0, np.where(k >= n, 0.0, inside))
    return result
