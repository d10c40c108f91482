"""A tighter upper bound on the one-token TV distance: the plug-in one less its known noise.

The plug-in distance of a healthy run is mostly noise, and this noise has a known mean. For a
cell of target probability p whose true probability is p + D, let h(D) = E|X/N - p|, X
binomial. Then E TV(phat, p) = sum h(D)/2, and with c an upper bound on it and any l >= 0

    TV = sum |D|/2 <= l c + sum sup_D (|D|/2 - l h(D)/2).

h is the Bernstein polynomial of a convex function, so it is convex, and its tangents bound it
from below: every supremum is bounded at the corners of a polygon, by no search that could miss
it. At l = 1 no term is above 0, because h(D) >= |D|: the bound never exceeds the plug-in one.
"""

from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import Floats, count_rows
from simverify.stats.certificates.bounds import Certificate, plug_in_bound

# Where the tangents touch, in standard deviations of X/N: dense where the suprema lie.
_TOUCH = np.concatenate([np.linspace(0.0, 3.0, 21), [3.4, 4.0, 5.0, 7.0, 12.0, 40.0]])
_MULTIPLIERS = np.concatenate([[1.0], 1.0 + np.geomspace(0.003, 30.0, 40)])
# Above the rounding of h, a difference of numbers of the order of p.
_ROUNDING = 1e-13
_CELLS_AT_ONCE = 4096


def dual_certificate(counts: Any, probabilities: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance by its plug-in value less the noise in it.

    mean TV <= min over l >= 1 of [l c + sum sup_D (|D|/2 - l h(D)/2)], c the bound of
    :func:`plug_in_certificate` at the same ``delta``, h(D) = E|X/N - p| for a binomial X, and
    the sum over cells, each weighted by its context's share of the tokens. That c holds by
    McDiarmid's inequality [1]_: one token moves the plug-in distance by 1/N at most.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context; slots may be stacked as further contexts.
    probabilities : float64 array (contexts, V)
        Target rows; each sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If there is no token, counts are negative or not integers, shapes differ, V < 2, a
        row is no law, or delta is outside (0, 1).

    References
    ----------
    .. [1] McDiarmid, "On the method of bounded differences", Surveys in Combinatorics, 1989.
    .. [2] Diaconis and Zabell, "Closed form summation for classical distributions: variations
       on a theme of de Moivre", Stat. Sci. 6, 1991 (the mean deviation).
    """
    array, rows = count_rows("counts", counts, probabilities)
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
    for start in range(0, weights.size, _CELLS_AT_ONCE):
        part = slice(start, start + _CELLS_AT_ONCE)
        bounds += _suprema(cells[0, part], cells[1, part], weights[part]) / 2.0
    return Certificate(
        bound=min(1.0, float(bounds.min())),
        delta=delta,
        method="dual: plug-in TV less the mean of its noise, exact binomial",
        assumption="the tokens of a context are independent and of one law; the number of "
        "tokens in each context fixed beforehand",
    )


def _suprema(p: Floats, n: Floats, weights: Floats) -> Floats:
    """Weighted sum over cells of an upper bound on sup_D (|D| - l h(D)), for each l."""
    distance, height = _polygon(p, n)
    return np.array([weights @ (distance - at * height).max(axis=1) for at in _MULTIPLIERS])


def _polygon(p: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Points |D| (cells, k) and heights there of lines below h, their corners included.

    Between two neighbouring points of contact the linear |D| - l (tangent) is largest at a
    point of contact or where the tangents cross; where rounding misplaces the crossing, the
    lower tangent still stands for both.
    """
    points, heights = [], []
    scale = np.maximum(np.sqrt(p * (1.0 - p) / n), 1.0 / n)[:, None]
    for sign, room in ((1.0, 1.0 - p), (-1.0, p)):
        ends = np.broadcast_to(room[:, None], (p.size, 1))
        touch = np.concatenate([np.minimum(_TOUCH * scale, ends), ends], axis=1)
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
    tail = _cdf if above else _sf
    lower, upper = tail(k - 1.0, n - 1.0, true), tail(k, n - 1.0, true)
    excess = (p * (1.0 - true)) * upper - (true * (1.0 - p)) * lower
    height = np.abs(true - p) + 2.0 * np.maximum(excess if above else -excess, 0.0)
    middle = 2.0 * k + 1.0 - 2.0 * n * p
    if above:
        return height, 1.0 - upper - lower + middle * (upper - lower)
    return height, upper + lower - 1.0 + middle * (lower - upper)


def _cdf(k: Floats, n: Floats, p: Floats) -> Floats:
    """P(X <= k), X binomial(n, p)."""
    inside = special.betaincc(np.maximum(k + 1.0, 1.0), np.maximum(n - k, 1.0), p)
    result: Floats = np.where(k < 0.0, 0.0, np.where(k >= n, 1.0, inside))
    return result


def _sf(k: Floats, n: Floats, p: Floats) -> Floats:
    """P(X > k), X binomial(n, p)."""
    inside = special.betainc(np.maximum(k + 1.0, 1.0), np.maximum(n - k, 1.0), p)
    result: Floats = np.where(k < 0.0, 1.0, np.where(k >= n, 0.0, inside))
    return result
