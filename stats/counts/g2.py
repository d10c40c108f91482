"""The G2 statistic with its null moments: its test, and what it detects.

A shifted gamma law with the statistic's first three cumulants gives the tail. Statistics of
independent rows and slots add up, and so do their cumulants and degrees of freedom.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from simverify.stats._checks import (
    Floats,
    in_ball,
    open_unit,
    positive_float,
    positive_int,
    tv_ball,
)
from simverify.stats._search import smallest_n
from simverify.stats.counts import coupling
from simverify.stats.counts.deviance import (
    MIN_EXPECTED,
    MOST,
    LoneRow,
    TwoCells,
    log_binomial_tail,
    outcomes,
)
from simverify.stats.counts.rare import RareTokens
from simverify.stats.results import TestResult
from simverify.stats.tails.log_tails import log_gamma_sf

_LEAST_POWER = 1e-9
"""Below it the noncentrality, found from the other tail, has no digits."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """Pooled cells of tested rows, float64 (cells,): what was ``observed``, and ``expected``."""

    observed: Floats
    expected: Floats

    def least(self, moves: int) -> float:
        """Least deviance that is left after so many tokens are taken out and put back."""
        taken = _level(lambda c: np.maximum(self.observed - c * self.expected, 0.0).sum(), moves)
        given = _level(lambda c: np.maximum(self.expected / c - self.observed, 0.0).sum(), moves)
        # The deviance is convex in every cell: the fullest give, the emptiest take.
        full = np.maximum(np.minimum(self.observed, taken * self.expected), self.expected / given)
        return 2.0 * float(special.kl_div(full, self.expected).sum())


_FAR = 64.0
"""Log of a ratio of counts that stands for any: no count is that far from what it expects."""


def _level(moved: Callable[[float], float], moves: int) -> float:
    """Ratio c >= 1 beyond which ``moves`` lie, or a little more; 1 if there are not so many."""
    if moved(1.0) <= moves:
        return 1.0
    low, high = 0.0, 1.0
    while moved(math.exp(high)) > moves and high < _FAR:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if moved(math.exp(middle)) > moves else (low, middle)
    return math.exp(low)


@dataclass(frozen=True, kw_only=True)
class G2:
    """A G2 statistic with its null moments; G2s of different slots add up.

    Attributes
    ----------
    statistic : float
        Sum over tested rows of 2 sum O ln(O/E).
    cumulants : tuple of float
        First three cumulants of the statistic under the null, given the row totals.
    df : int
        Pooled cells less one, summed over tested rows; 0 if no row could be tested.
    n : int
        All tokens counted, those of untested rows included.
    unresolved : float
        Expected number of tokens in cells that were pooled with others and in untested
        rows, but for rows with a single possible token: there the support test sees all. By
        at most ``unresolved / n`` is the TV distance that the G2 sees smaller than the mean
        one-token TV distance.
    two_cells : TwoCells or None
        The row behind df = 1, whose test is an exact binomial one.
    rare : RareTokens or None
        Tokens of one slot that :func:`rare_test` judges; all that is expected in their pools
        is in ``unresolved``, which that test makes smaller. A sum of slots has none.
    pooled : tuple of Pooled
        The cells behind the statistic, one entry per slot; none where nothing was counted.
    """

    statistic: float
    cumulants: tuple[float, float, float]
    df: int
    n: int
    unresolved: float
    two_cells: TwoCells | None = None
    rare: RareTokens | None = None
    pooled: tuple[Pooled, ...] = ()

    def __add__(self, other: "G2") -> "G2":
        first, second, third = (a + b for a, b in zip(self.cumulants, other.cumulants, strict=True))
        df = self.df + other.df
        return G2(
            statistic=self.statistic + other.statistic,
            cumulants=(first, second, third),
            df=df,
            n=self.n + other.n,
            unresolved=self.unresolved + other.unresolved,
            two_cells=(self.two_cells or other.two_cells) if df == 1 else None,
            pooled=self.pooled + other.pooled,
        )


def g2_test(
    g2: G2, *, alpha: float, ball: float = 0.0, name: str = "transitions"
) -> TestResult:  # fmt: skip
    """Test a :class:`G2`, of one slot or summed over slots.

    The tail is a shifted gamma law with the statistic's three cumulants. A single row whose
    counts are few enough to try them all has its exact law, a row with df = 1 the exact
    binomial one: there the gamma's size jumps between .5 and 2.4 times alpha, from atom to
    atom of the lattice. Sums of rows and larger counts smooth that out.

    ``min_detectable`` is a mean one-token TV distance over all ``n`` tokens:
    :func:`g2_min_detectable` plus ``unresolved / n``.

    Parameters
    ----------
    ball : float
        TV distance by which each conditional law may be off: so many tokens may have been
        moved between cells (:mod:`simverify.stats.counts.coupling`), and the least statistic over
        such moves is what is tested.

    Raises
    ------
    ValueError
        If df is 0, alpha is outside (0, 1), ball outside [0, 1), or a ball is declared for a
        G2 without counts.
    """
    alpha, radius = open_unit("alpha", alpha), tv_ball(ball)
    if g2.df == 0:
        raise ValueError(
            f"g2 of {g2.n} tokens has df 0, expected a row with two cells of expected count "
            f"{MIN_EXPECTED:g} or more: count more tokens or skip this slot"
        )
    if radius and not g2.pooled:
        raise ValueError(f"ball is {radius:g} for a G2 without counts, expected one that "
                         "transition_g2 made")  # fmt: skip
    if g2.two_cells is not None:
        log_p, law = log_binomial_tail(g2.two_cells, radius), "exact binomial"
    else:
        row = _lone_row(g2)
        law = "three-moment gamma" if row is None else "exact multinomial"
        log_p = _log_pvalue(
            g2, radius, (lambda x: _log_gamma_tail(g2, x)) if row is None else row.log_sf
        )
    detectable = g2_min_detectable(g2.df, g2.n, alpha=alpha, ball=radius) + g2.unresolved / g2.n
    return TestResult(
        name=name,
        statistic=g2.statistic,
        log_pvalue=log_p,
        alpha=alpha,
        n=g2.n,
        df=g2.df,
        method=in_ball(f"G2, {law}", radius),
        min_detectable=detectable if detectable < 1.0 else math.inf,
        deviation="mean one-token TV",
    )


def _lone_row(g2: G2) -> LoneRow | None:
    """Return the exact law of a single row with few enough counts, if it is one."""
    if len(g2.pooled) != 1 or len(g2.pooled[0].expected) != g2.df + 1:
        return None
    expected = g2.pooled[0].expected
    few = outcomes(len(expected), round(float(expected.sum()))) <= MOST
    return LoneRow(expected) if few else None


def _log_pvalue(g2: G2, radius: float, log_tail: Callable[[float], float]) -> float:
    if radius == 0.0:
        return log_tail(g2.statistic)
    cells = Pooled(
        np.concatenate([part.observed for part in g2.pooled]),
        np.concatenate([part.expected for part in g2.pooled]),
    )
    return coupling.log_pvalue(g2.n, radius, lambda m: log_tail(cells.least(m)))


def _log_gamma_tail(g2: G2, statistic: float) -> float:
    first, second, third = g2.cumulants
    shape = 4.0 * second**3 / third**2
    scale = third / (2.0 * second)
    shift = first - shape * scale
    return log_gamma_sf(max(statistic - shift, 0.0) / scale, shape)


def g2_min_detectable(
    df: int, n: int, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Smallest mean one-token TV distance found with this power, inf if there is none.

    The distance is between the pooled laws. The noncentrality of G2 is 2 n times the mean
    Kullback-Leibler divergence, at least 4 n TV^2 by Pinsker and Jensen, however the
    deviation is spread over tokens, contexts and slots. With a ball the same bound holds for
    the counts themselves: what the moves leave of their distance from the rows, which lies
    below the laws' by a normal quantile of half over sqrt(n) at most, makes a G2 of 4 n times
    its square.

    Raises
    ------
    ValueError
        If df or n is below 1, alpha or power outside (0, 1), the power above alpha but below
        1e-9, or ball outside [0, 1).
    """
    df, n, radius = positive_int("df", df), positive_int("n", n), tv_ball(ball)
    if radius == 0.0:
        tv = math.sqrt(_noncentrality(df, alpha, power) / (4.0 * n))
    else:
        alpha, power = open_unit("alpha", alpha), open_unit("power", power)
        moved = coupling.most_moves(n, radius, alpha=alpha) / n
        noise = max(float(special.ndtri(power)), 0.0) / (2.0 * math.sqrt(n))
        tv = math.sqrt(float(special.chdtri(df, alpha / 2.0)) / (4.0 * n)) + moved + noise
    return tv if tv <= 1.0 else math.inf


def g2_samples(
    tv: float, df: int, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> int:  # fmt: skip
    """Tokens that find a mean one-token TV distance of ``tv`` between the pooled laws.

    Raises
    ------
    ValueError
        If tv or df is not positive, no number of tokens finds it in the ball, alpha or power
        is outside (0, 1) or ball outside [0, 1).
    """
    tv, df = positive_float("tv", tv), positive_int("df", df)
    if tv_ball(ball) == 0.0:
        return math.ceil(_noncentrality(df, alpha, power) / (4.0 * tv * tv))
    if tv <= ball:
        raise ValueError(f"tv is {tv:g}, expected more than the ball, {ball:g}")
    return smallest_n(
        lambda n: g2_min_detectable(df, n, alpha=alpha, power=power, ball=ball) <= tv, f"tv {tv:g}"
    )


def _noncentrality(df: int, alpha: float, power: float) -> float:
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    if power <= alpha:
        return 0.0
    if power < _LEAST_POWER:
        raise ValueError(f"power is {power:g}, expected {_LEAST_POWER:g} or more")
    return float(special.chndtrinc(special.chdtri(df, alpha), df, 1.0 - power))
