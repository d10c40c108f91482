"""Many tokens, few of each: a weighted collision test where G2 would pool nearly all."""

import math
from typing import Any

import numpy as np
from scipy import optimize, special

from simverify.stats._checks import (
    Floats,
    count_rows,
    in_ball,
    open_unit,
    positive_float,
    positive_int,
    probability_rows,
    tv_ball,
)
from simverify.stats._search import smallest_n
from simverify.stats.counts import coupling
from simverify.stats.counts.collisions import CollisionLaw, Moves, least_floor, statistic
from simverify.stats.counts.g2 import g2_test
from simverify.stats.counts.transitions import transition_g2
from simverify.stats.results import TestResult
from simverify.stats.scores.indicator_bank import indicator_test
from simverify.stats.scores.indicators import indicator_sums_of_contexts

MAX_SKEWNESS = 0.15
"""Largest skewness at which the statistic's tail is trusted."""

_FLOOR_SHARE = 0.1
"""Share of alpha for the count of tokens below the floor."""


def large_alphabet_test(
    counts: Any, rows: Any, *, alpha: float, ball: float = 0.0, name: str = "large alphabet"
) -> TestResult:
    """Test counts over a large vocabulary, with power where each token is seen a few times.

    The statistic is sum(((X - Np)^2 - X) max(p, p0)^(-2/3)), less what is linear in X - Np
    (it carries variance and no power); its tail is a saddle-point one, from the weighted
    chi-squares of its limit law and the exact cumulants of the rest. The floor p0 is as small
    as lets a pair of tokens in one cell move it by .25 standard deviations at most; the mass
    below p0, where single cells count for little, gets an exact test of its total count with
    a tenth of alpha. If the skewness is above ``MAX_SKEWNESS``, G2 on cells pooled by P takes
    its place.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context; row totals are taken as given.
    rows : float64 array (contexts, V)
        The verifier's own rows; each sums to 1.
    ball : float
        TV distance by which each conditional law may be off: so many tokens may have been
        moved (:mod:`simverify.stats.counts.coupling`), and what that can take from the statistic is
        taken. Nothing is promised then: a law just beyond the ball may differ from one within
        it in single cells that are never seen.

    Returns
    -------
    TestResult
        ``statistic`` in standard deviations, or G2.

    Raises
    ------
    ValueError
        If there are fewer than two tokens, or too few for either statistic, counts are
        negative or not integers, shapes differ, V < 2, a row is no law, alpha is outside
        (0, 1) or ball outside [0, 1).

    References
    ----------
    Valiant and Valiant, "An automatic inequality prover and instance optimal identity
    testing", FOCS 2014: weights p^(-2/3) are best against the worst deviation.
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    array, law = count_rows("counts", counts, rows)
    seen = array.sum(axis=1) > 0
    array, law = array[seen], law[seen]
    totals = array.sum(axis=1).astype(np.float64)
    if totals.sum() < 2:
        raise ValueError(f"counts hold {totals.sum():.0f} tokens, expected 2 or more")
    null = _null(totals, law)
    if null is None:
        return g2_test(transition_g2(array, law), alpha=alpha, ball=radius, name=name)
    observed = statistic(array, totals, law, null.floor)
    log_p = null.log_sf(observed)
    if radius:
        moves = Moves(array, totals, law, null.floor)
        log_p = coupling.log_pvalue(
            int(totals.sum()), radius, lambda m: null.log_sf(observed - moves.gain(m))
        )
    log_p -= math.log1p(-_FLOOR_SHARE)
    floored = (law < null.floor) & (law > 0.0)
    if floored.any():
        sums = indicator_sums_of_contexts(array, law, floored)
        below = indicator_test(sums, alpha=alpha, ball=radius)
        log_p = min(log_p, below.log_pvalue - math.log(_FLOOR_SHARE))
    return TestResult(
        name=name,
        statistic=observed / math.sqrt(null.variance),
        log_pvalue=min(0.0, log_p),
        alpha=alpha,
        n=int(totals.sum()),
        df=None,
        method=in_ball(
            f"weighted collisions, saddle-point tail; exact count below p0 = {null.floor:.2g}",
            radius,
        ),
        min_detectable=math.inf if radius else _detectable(totals, law, null, alpha, 0.9),
        deviation="mean one-token TV",
    )


def _null(totals: Floats, rows: Floats) -> CollisionLaw | None:
    """Law of the statistic, None where its tail is not to be trusted."""
    floor = least_floor(totals, rows)
    if math.isinf(floor):
        return None
    null = CollisionLaw.of(totals, rows, floor)
    return null if null.skewness <= MAX_SKEWNESS else None


def _detectable(
    totals: Floats, rows: Floats, null: CollisionLaw, alpha: float, power: float
) -> float:
    """Mean TV that is found with this power, however it is spread over tokens and contexts.

    By Cauchy and Schwarz the statistic's mean, sum_c n_c (n_c - 1) sum_x w D^2, is least for
    D in proportion to 1 / w within a context, where it is 4 TV_c^2 n_c (n_c - 1) / sum(1/w);
    and then for TV_c in proportion to sum(1/w) / (n_c - 1) between contexts.
    """
    inverse = np.where(rows > 0.0, np.maximum(rows, null.floor) ** (2.0 / 3.0), 0.0).sum(axis=1)
    several = totals > 1.0
    rest, inverse = totals[several] - 1.0, inverse[several]
    share = totals[several] / totals.sum()
    lone = 1.0 - float(share.sum())
    slope = 2.0 / float(share @ (inverse / rest))
    critical = null.critical(math.log(alpha * (1.0 - _FLOOR_SHARE)))
    z = float(special.ndtri(power))

    def gap(tv: float) -> float:
        # w D (n - 1) is this in every cell; the linear part's variance is 4 times its square.
        step = slope * tv
        mean = float(totals.sum()) * tv * step * 2.0
        variance = null.variance * (1.0 + tv) + 4.0 * step**2 * float(totals.sum())
        return mean - critical - z * math.sqrt(variance)

    if gap(1.0) <= 0.0:
        return math.inf
    # What contexts with one token deviate by is not seen at all.
    return float(optimize.brentq(gap, 0.0, 1.0, xtol=1e-12)) + lone


def large_alphabet_min_detectable(n: int, row: Any, *, alpha: float, power: float = 0.9) -> float:
    """TV distance from ``row`` found with this power by n tokens, however it is spread.

    inf where the statistic is not used or n is too small to promise anything.

    Parameters
    ----------
    row : float64 array (V,)
        Sums to 1.

    Raises
    ------
    ValueError
        If n < 2, the row is no law or alpha or power is outside (0, 1).
    """
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    law = probability_rows("row", row, 1)[None]
    totals = np.array([float(positive_int("n", n, 2))])
    null = _null(totals, law)
    return math.inf if null is None else _detectable(totals, law, null, alpha, power)


def large_alphabet_samples(tv: float, row: Any, *, alpha: float, power: float = 0.9) -> int:
    """Tokens that find a TV distance of ``tv`` from ``row``, however it is spread.

    Raises
    ------
    ValueError
        If ``tv`` is not positive, no number of tokens finds it, the row is no law or alpha or
        power is outside (0, 1).
    """
    tv = positive_float("tv", tv)

    def enough(n: int) -> bool:
        found = large_alphabet_min_detectable(max(n, 2), row, alpha=alpha, power=power)
        return found <= tv

    return smallest_n(enough, f"tv {tv:g}")
