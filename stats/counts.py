"""Tests of counted tokens: G2, rare and impossible tokens, pairs of emissions.

G2 compares counts with expected counts. A shifted gamma law with the statistic's first three
cumulants gives its tail. Statistics of independent rows and slots add up, and so do their
cumulants and degrees of freedom.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from numpy.polynomial import chebyshev

from simverify.stats._checks import (
    Floats,
    Ints,
    TestResult,
    add_fields,
    check_count_rows,
    check_counts,
    check_open_unit,
    check_positive_float,
    check_positive_int,
    check_probability_rows,
    check_row_tolerance,
    smallest_n,
    smallest_true,
    with_row_tolerance,
)
from simverify.stats.means import acceptance_min_detectable, acceptance_test
from simverify.stats.tails import log_binom_cdf, log_binom_sf, log_gamma_sf

# Counts within a declared ball: counts of the rows themselves, but for a few tokens moved.
#
# If the law of each token, given all before it, is within TV distance eps of its row, then it
# can be drawn together with a token of the row itself so that the two differ with probability
# eps at most. So the number of tokens that differ is at most a binomial(n, eps) one, and the
# counts are those of the rows but for so many moves within their contexts. Whatever moves can
# do to a statistic, its least value over m moves exceeds a critical value with the statistic's
# own size at most, or more than m tokens were moved.
# Source: Lindvall, "Lectures on the coupling method", 1992 (the maximal coupling).


def coupled_log_pvalue(n: int, ball: float, log_tail: Callable[[int], float]) -> float:
    """Log p-value of n tokens, from ``log_tail(m)``, that of the least statistic over m moves.

    Half of the level pays for more moves than m, half for the tail: the p-value is twice the
    larger of both, at the best m. A test at level alpha that uses it has the m of alpha / 2.
    """

    def enough(moves: int) -> bool:
        return log_binom_sf(moves, n, ball) <= log_tail(moves)

    # Moves get rarer and tails fatter with m; beyond n there are none.
    most = smallest_true(enough, n)
    bound = max(log_binom_sf(most, n, ball), log_tail(most))
    if most > 0:
        bound = min(bound, log_binom_sf(most - 1, n, ball))
    return min(0.0, math.log(2.0) + bound)


def max_moves(n: int, ball: float, *, alpha: float) -> int:
    """Tokens that a law within the ball moves at most, but for a chance of alpha / 2."""
    level = math.log(alpha / 2.0)
    return smallest_true(lambda moves: log_binom_sf(moves, n, ball) <= level, n)


# Tokens that should never come, and those that should hardly ever.
#
# One of probability 0 is a fault with certainty. Of pools that nearly always draw the same token,
# the other tokens are counted together.
#
# Cells that expect too few tokens for a G2 are pooled, and it does not see what moves within a
# pool. Together, the pools of one slot that one token leads still say how often any of the others
# was drawn. Source: Hoeffding, "On the distribution of the number of successes in independent
# trials", Annals of Mathematical Statistics 27, 1956, theorem 4.


@dataclass(frozen=True, kw_only=True)
class RareTokens:
    """Tokens of one slot that another token of their pool outweighs by far.

    ``count`` were seen, ``expected`` is their mean under the null; ``n`` counts all tokens of
    the rows that have any, ``pooled`` is the mean of what their pools hold, leaders included.
    """

    count: int
    expected: float
    n: int
    pooled: float


def rare_test(rare: RareTokens, *, alpha: float, name: str = "rare tokens") -> TestResult:
    """Test that rare tokens are not drawn more often than they should be.

    Given the contexts of the slot, the count is a sum of independent indicators. From one above its
    mean on, its upper tail is at most that of the binomial law with as many trials and the same
    mean (Hoeffding); below, the p-value is 1. ``min_detectable`` is the mean one-token TV over
    these rows beyond which :func:`rare_hidden` lets nothing hide. Raises ``ValueError`` if alpha is
    outside (0, 1).
    """
    alpha = check_open_unit("alpha", alpha)
    log_p = 0.0
    if rare.count >= rare.expected + 1.0:
        log_p = log_binom_sf(rare.count - 1, rare.n, rare.expected / rare.n)
    hidden = rare_hidden(rare, alpha=alpha)
    return TestResult(
        name=name,
        statistic=float(rare.count),
        log_pvalue=min(0.0, log_p),
        alpha=alpha,
        n=rare.n,
        method="count of unlikely tokens, binomial bound",
        min_detectable=hidden / rare.n if hidden < rare.pooled else math.inf,
        deviation="mean one-token TV of these rows, within pools",
    )


def rare_hidden(rare: RareTokens, *, alpha: float, power: float = 0.9) -> float:
    """Sum over the tokens of these rows of the TV distance that may stay unseen in the pools.

    Let a pool's leader have h and its others r under the target, h' and r' under the emitted law.
    The pool adds at most (|h' - h| + r + r')/2 to the TV distance of its row, of which the G2 sees
    |h' + r' - h - r|/2; the rest is at most (|r' - r| + r + r')/2 = max(r, r'), so its sum over
    tokens is at most sum r + sum r'. The first is ``expected``. A second sum of U or more, U the
    binomial mean whose upper tail at the critical count is ``power``, is found with this power
    (Hoeffding again, as U is above the critical count). So what may hide is ``expected`` + U, and
    never more than all that is ``pooled``. Raises ``ValueError`` if alpha or power is outside (0,
    1).
    """
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    n, p = rare.n, rare.expected / rare.n
    level = math.log(alpha)
    above_mean = math.ceil(rare.expected + 1.0)
    least = smallest_true(lambda k: log_binom_sf(k - 1, n, p) < level, n + 1, above_mean)
    if least > n:
        return rare.pooled
    mean = n * float(scipy.special.betaincinv(least, n - least + 1, power))
    return min(rare.pooled, rare.expected + max(mean, float(least)))


@dataclass(frozen=True)
class SupportResult:
    """Tokens of probability 0 that were emitted.

    ``tokens`` counts them all; ``first`` is the (context, token, count) of the lowest
    context and token among them, None if there are none.
    """

    tokens: int
    first: tuple[int, int, int] | None

    @property
    def rejected(self) -> bool:
        """Whether a token of probability 0 was seen: a fault with certainty, free of alpha."""
        return self.tokens > 0


def support_violations(counts: Any, probabilities: Any) -> SupportResult:
    """Find emitted tokens to which the target gives probability exactly 0.

    ``counts``: int (contexts, V), emitted tokens per context. ``probabilities``: float64 (contexts,
    V), the verifier's own target rows; each sums to 1. Raises ``ValueError`` if counts are negative
    or not integers, shapes differ, V < 2 or a row is no law.
    """
    array, rows = check_count_rows("counts", counts, probabilities)
    outside = (rows == 0.0) & (array > 0)
    if not outside.any():
        return SupportResult(0, None)
    context, token = (int(i) for i in np.unravel_index(int(outside.argmax()), outside.shape))
    return SupportResult(int(array[outside].sum()), (context, token, int(array[context, token])))


# The law of the deviance of Poisson cells, whose sum is a G2 statistic.
#
# Where each cell expects enough, the sum follows its first three cumulants: the deviance of
# X ~ Poisson(m) is 2 (X ln(X/m) - X + m), and its cumulants tend to those of chi2 with one degree
# of freedom, 1, 2 and 8, like 1/m. A gamma law with them smooths what is a lattice: on a lone row
# of two cells, or of few tokens, its tail is up to 2.4 times too light at a level of 1e-6, where
# three cells expect ten tokens each. With so few counts to choose from, every one of them can be
# weighed instead; a row of two cells is a binomial.


MIN_EXPECTED = 10.0  # smallest mean served: cells are pooled until they expect this many counts
# In 1/m the cumulants are smooth on [0, 1/10]; degree 16 leaves errors below 1e-8 (tested).
_DEGREE = 16


def poisson_deviance_cumulants(mean: float) -> Floats:
    """First three cumulants (3,) of the deviance of Poisson(``mean``), summed term by term."""
    reach = 14.0 * np.sqrt(mean) + 40.0
    x = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1, dtype=np.float64)
    # As scipy.stats.poisson has it, whose import alone takes a worker half a second.
    weight = np.exp(scipy.special.xlogy(x, mean) - scipy.special.gammaln(x + 1.0) - mean)
    deviance = 2.0 * scipy.special.kl_div(x, mean)
    first = float(weight @ deviance)
    centred = deviance - first
    return np.array([first, weight @ centred**2, weight @ centred**3])


@functools.cache
def _cumulant_coefficients() -> Floats:
    nodes = chebyshev.chebpts1(_DEGREE + 1)
    means = 2.0 * MIN_EXPECTED / (nodes + 1.0)
    values = np.array([poisson_deviance_cumulants(mean) for mean in means])
    return chebyshev.chebfit(nodes, values, _DEGREE)


def sum_of_cumulants(means: Floats) -> Floats:
    """First three cumulants (3,) of the summed deviances of independent Poisson cells.

    ``means`` float64 (cells,), each at least 10.
    """
    # A sum of polynomials is a polynomial of summed bases: one pass serves all three.
    position = 2.0 * MIN_EXPECTED / means - 1.0
    basis_sums = np.empty(_DEGREE + 1)
    previous, current = np.ones_like(position), position
    basis_sums[0] = means.size
    for degree in range(1, _DEGREE + 1):
        basis_sums[degree] = current.sum()
        previous, current = current, 2.0 * position * current - previous
    return basis_sums @ _cumulant_coefficients()


MAX_OUTCOMES = 1 << 18
"""Counts of a row that are tried: a tenth of a second, and 25 MB for five cells."""

_STATISTIC_TOLERANCE = 1e-12
"""Statistics that differ by less, relatively, are one value that was rounded in two ways."""


def outcome_count(cells: int, n: int) -> int:
    """Return how many ways there are to put ``n`` tokens into ``cells``."""
    return math.comb(n + cells - 1, cells - 1)


def enumerate_counts(cells: int, n: int) -> Floats:
    """Return every way to put ``n`` tokens into ``cells``, float64 (outcomes, cells)."""
    left, columns = np.array([n]), np.empty((1, 0), dtype=np.int64)
    for _ in range(cells - 1):
        ways = left + 1
        row = np.repeat(np.arange(len(left)), ways)
        first = np.cumsum(ways) - ways
        taken = np.arange(len(row)) - first[row]
        columns = np.column_stack([columns[row], taken])
        left = left[row] - taken
    return np.column_stack([columns, left]).astype(np.float64)


class SingleRowLaw:
    """The law of G2 where ``n`` tokens fall on cells that expect so many of them each."""

    def __init__(self, expected: Floats) -> None:
        n = round(float(expected.sum()))
        counts = enumerate_counts(len(expected), n)
        statistic = 2.0 * scipy.special.kl_div(counts, expected).sum(axis=1)
        log_mass = (
            scipy.special.xlogy(counts, expected / n) - scipy.special.gammaln(counts + 1.0)
        ).sum(axis=1)
        order = np.argsort(-statistic, kind="stable")
        self._least = -statistic[order]
        self._log_tail = np.logaddexp.accumulate(log_mass[order]) + scipy.special.gammaln(n + 1.0)

    def log_sf(self, statistic: float) -> float:
        """Log of P(G2 >= statistic)."""
        slack = _STATISTIC_TOLERANCE * max(1.0, abs(statistic))
        index = int(np.searchsorted(self._least, slack - statistic, side="right"))
        return min(0.0, float(self._log_tail[index - 1])) if index else -math.inf


@dataclass(frozen=True)
class BinomialRow:
    """A binomial row: ``count`` of ``total`` in a cell of this ``probability``."""

    count: int
    total: int
    probability: float


def log_binomial_tail(cells: BinomialRow, radius: float) -> float:
    """Log of P(G2 >= observed) for one binomial row."""
    n, p = cells.total, cells.probability
    if radius:
        # Within the ball the count lies between those of the two ends.
        upper = log_binom_sf(cells.count - 1, n, min(p + radius, 1.0))
        lower = log_binom_cdf(cells.count, n, max(p - radius, 0.0))
        return min(0.0, math.log(2.0) + min(upper, lower))

    def deviance(k: int) -> float:
        return float(scipy.special.kl_div(k, n * p) + scipy.special.kl_div(n - k, n * (1.0 - p)))

    # Equal values on the two sides of the mean must not be split by rounding.
    level = deviance(cells.count) * (1.0 - 1e-12)
    centre = math.floor(n * p)
    below = smallest_true(lambda k: deviance(centre - k) >= level, centre + 1)
    above = smallest_true(lambda k: deviance(centre + 1 + k) >= level, n - centre)
    lower = log_binom_cdf(centre - below, n, p)
    upper = log_binom_sf(centre + above, n, p)
    return min(0.0, float(np.logaddexp(lower, upper)))


# The G2 statistic with its null moments: its test, its plan, the least deviation it detects.


_MIN_POWER = 1e-9  # below it the noncentrality, found from the other tail, has no digits


@dataclass(frozen=True, eq=False)
class PooledCells:
    """Pooled cells of tested rows, float64 (cells,): what was ``observed``, and ``expected``."""

    observed: Floats
    expected: Floats

    def least(self, moves: int) -> float:
        """Least deviance that is left after so many tokens are taken out and put back."""
        seen, expected = self.observed, self.expected
        taken = _ratio_threshold(lambda c: np.maximum(seen - c * expected, 0.0).sum(), moves)
        given = _ratio_threshold(lambda c: np.maximum(expected / c - seen, 0.0).sum(), moves)
        # The deviance is convex in every cell: the fullest give, the emptiest take.
        full = np.maximum(np.minimum(seen, taken * expected), expected / given)
        return 2.0 * float(scipy.special.kl_div(full, expected).sum())


_MAX_LOG_RATIO = 64.0
"""Log of a ratio of counts that stands for any: no count is that far from what it expects."""


def _ratio_threshold(moved: Callable[[float], float], moves: int) -> float:
    """Ratio c >= 1 beyond which ``moves`` lie, or a little more; 1 if there are not so many."""
    if moved(1.0) <= moves:
        return 1.0
    low, high = 0.0, 1.0
    while moved(math.exp(high)) > moves and high < _MAX_LOG_RATIO:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if moved(math.exp(middle)) > moves else (low, middle)
    return math.exp(low)


@dataclass(frozen=True, kw_only=True)
class G2:
    """A G2 statistic with its null moments; G2s of different slots add up.

    ``statistic``: sum over tested rows of 2 sum O ln(O/E). ``cumulants``: first three cumulants of
    the statistic under the null, given the row totals. ``df``: pooled cells less one, summed over
    tested rows; 0 if no row could be tested. ``n``: all tokens counted, those of untested rows
    included. ``unresolved``: expected number of tokens in cells that were pooled with others and in
    untested rows, but for rows with a single possible token: there the support test sees all. By at
    most ``unresolved / n`` is the TV distance that the G2 sees smaller than the mean one-token TV
    distance. ``two_cells``: the row behind df = 1, whose test is an exact binomial one. ``rare``:
    tokens of one slot that :func:`rare_test` judges; all that is expected in their pools is in
    ``unresolved``, which that test makes smaller. A sum of slots has none. ``pooled``: the cells
    behind the statistic, one entry per slot; none where nothing was counted.
    """

    statistic: float
    cumulants: tuple[float, float, float]
    df: int
    n: int
    unresolved: float
    two_cells: BinomialRow | None = None
    rare: RareTokens | None = None
    pooled: tuple[PooledCells, ...] = ()

    def __add__(self, other: "G2") -> "G2":
        first, second, third = (a + b for a, b in zip(self.cumulants, other.cumulants, strict=True))
        one = self.df + other.df == 1
        return add_fields(
            self,
            other,
            cumulants=(first, second, third),
            two_cells=(self.two_cells or other.two_cells) if one else None,
            rare=None,
        )


def g2_test(g2: G2, *, alpha: float, ball: float = 0.0, name: str = "transitions") -> TestResult:
    """Test a :class:`G2`, of one slot or summed over slots.

    The tail is a shifted gamma law with the statistic's three cumulants. A single row whose counts
    are few enough to try them all has its exact law, a row with df = 1 the exact binomial one:
    there the gamma's size jumps between .5 and 2.4 times alpha, from atom to atom of the lattice.
    Sums of rows and larger counts smooth that out. ``min_detectable`` is a mean one-token TV
    distance over all ``n`` tokens: :func:`g2_min_detectable` plus ``unresolved / n``. ``ball``: TV
    distance by which each conditional law may be off: so many tokens may have been moved between
    cells (:mod:`simverify.stats.counts`), and the least statistic over such moves is what is
    tested. Raises ``ValueError`` if df is 0, alpha is outside (0, 1), ball outside [0, 1), or a
    ball is declared for a G2 without counts.
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    if g2.df == 0:
        raise ValueError(
            f"g2 of {g2.n} tokens has df 0, expected a row with two cells of expected count "
            f"{MIN_EXPECTED:g} or more: count more tokens or skip this slot"
        )
    if radius and not g2.pooled:
        raise ValueError(
            f"ball is {radius:g} for a G2 without counts, expected one that transition_g2 made"
        )
    if g2.two_cells is not None:
        log_p, law = log_binomial_tail(g2.two_cells, radius), "exact binomial"
    else:
        row = _single_row_law(g2)
        law = "three-moment gamma" if row is None else "exact multinomial"
        log_tail = partial(_log_gamma_tail, g2) if row is None else row.log_sf
        log_p = log_tail(g2.statistic)
        if radius:
            cells = PooledCells(
                np.concatenate([part.observed for part in g2.pooled]),
                np.concatenate([part.expected for part in g2.pooled]),
            )
            log_p = coupled_log_pvalue(g2.n, radius, lambda m: log_tail(cells.least(m)))
    detectable = g2_min_detectable(g2.df, g2.n, alpha=alpha, ball=radius) + g2.unresolved / g2.n
    return TestResult(
        name=name,
        statistic=g2.statistic,
        log_pvalue=log_p,
        alpha=alpha,
        n=g2.n,
        df=g2.df,
        method=with_row_tolerance(f"G2, {law}", radius),
        min_detectable=detectable if detectable < 1.0 else math.inf,
        deviation="mean one-token TV",
    )


def _single_row_law(g2: G2) -> SingleRowLaw | None:
    """Return the exact law of a single row with few enough counts, if it is one."""
    if len(g2.pooled) != 1 or len(g2.pooled[0].expected) != g2.df + 1:
        return None
    expected = g2.pooled[0].expected
    few = outcome_count(len(expected), round(float(expected.sum()))) <= MAX_OUTCOMES
    return SingleRowLaw(expected) if few else None


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
    Kullback-Leibler divergence, at least 4 n TV^2 by Pinsker and Jensen, however the deviation is
    spread over tokens, contexts and slots. With a ball the same bound holds for the counts
    themselves: what the moves leave of their distance from the rows, which lies below the laws' by
    a normal quantile of half over sqrt(n) at most, makes a G2 of 4 n times its square. Raises
    ``ValueError`` if df or n is below 1, alpha or power outside (0, 1), the power above alpha but
    below 1e-9, or ball outside [0, 1).
    """
    df, n = check_positive_int("df", df), check_positive_int("n", n)
    radius = check_row_tolerance(ball)
    if radius == 0.0:
        tv = math.sqrt(_noncentrality(df, alpha, power) / (4.0 * n))
    else:
        alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
        shift = max_moves(n, radius, alpha=alpha) / n
        noise = max(float(scipy.special.ndtri(power)), 0.0) / (2.0 * math.sqrt(n))
        tv = math.sqrt(float(scipy.special.chdtri(df, alpha / 2.0)) / (4.0 * n)) + shift + noise
    return tv if tv <= 1.0 else math.inf


def g2_samples(tv: float, df: int, *, alpha: float, power: float = 0.9, ball: float = 0.0) -> int:
    """Tokens that find a mean one-token TV distance of ``tv`` between the pooled laws.

    Raises ``ValueError`` if tv or df is not positive, no number of tokens finds it in the ball,
    alpha or power is outside (0, 1) or ball outside [0, 1).
    """
    tv, df = check_positive_float("tv", tv), check_positive_int("df", df)
    if check_row_tolerance(ball) == 0.0:
        return math.ceil(_noncentrality(df, alpha, power) / (4.0 * tv * tv))
    if tv <= ball:
        raise ValueError(f"tv is {tv:g}, expected more than the ball, {ball:g}")
    found = partial(g2_min_detectable, df, alpha=alpha, power=power, ball=ball)
    return smallest_n(lambda n: found(n) <= tv, f"tv {tv:g}")


def _noncentrality(df: int, alpha: float, power: float) -> float:
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    if power <= alpha:
        return 0.0
    if power < _MIN_POWER:
        raise ValueError(f"power is {power:g}, expected {_MIN_POWER:g} or more")
    return float(scipy.special.chndtrinc(scipy.special.chdtri(df, alpha), df, 1.0 - power))


# Repeated contexts: transition counts against the rows they were drawn from, pooled to a G2.
#
# Given its total, a row of counts is multinomial. Its G2 is the deviance of independent
# Poisson cells less the deviance of their total, so its cumulants are, but for terms of order
# 1/N^2, the sum of the cells' less that of the total.


MIN_LIKELIEST = 0.75
"""A pool whose likeliest token has this much of it has its other tokens counted as rare."""


def transition_g2(counts: Any, probabilities: Any) -> G2:
    """G2 of transition counts, conditional on the row totals.

    The cells of a row that expect fewer than 10 counts are pooled, in ascending order of
    probability, into cells that expect 10 or more; what is left joins the next cell. Pools depend
    on the probabilities and the row's total alone, never on its counts. Rows without two such cells
    are not tested: each is one pool as it stands. What moves within a pool is hidden; where one
    token has nearly all of its pool, :func:`rare_test` judges how often the others of it are drawn.
    Tokens of probability 0 are pooled like other rare ones; :func:`support_violations` is the test
    that sees a single one of them, and all that a row with a single possible token needs.
    ``counts``: int (contexts, V), tokens emitted after each context, in one slot (the row totals
    may be random). ``probabilities``: float64 (contexts, V), target rows; each sums to 1 within
    1e-9. Raises ``ValueError`` if there is no token, counts are negative or not integers, shapes
    differ, V < 2 or a row is no law.
    """
    array, rows = check_count_rows("counts", counts, probabilities)
    n = int(array.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token: skip this slot")
    seen = array.sum(axis=1) > 0
    array, rows = array[seen], rows[seen]
    totals = array.sum(axis=1)
    layout = _PoolLayout.of(totals, rows)
    sorted_counts = np.take_along_axis(array, layout.order, axis=1)
    observed = layout.pooled(sorted_counts)[layout.used]
    g2 = _null_moments(layout, totals)
    two_cells = None
    if g2.df == 1:
        total = int(totals[layout.tested][0])
        two_cells = BinomialRow(int(observed[0]), total, float(layout.means[0]) / total)
    rare = None
    if g2.rare is not None:
        rare = replace(g2.rare, count=int(sorted_counts[layout.rare].sum()))
    # Deviances of whole rows: sum O = sum E, so that the linear terms cancel.
    statistic = 2.0 * float(scipy.special.kl_div(observed, layout.means).sum())
    pooled = (PooledCells(observed, layout.means),) if g2.df else ()
    return replace(g2, statistic=statistic, two_cells=two_cells, rare=rare, pooled=pooled)


def expected_g2(totals: Any, probabilities: Any) -> G2:
    """G2 of counts that are yet to be drawn: its null moments, with a statistic of 0.

    It plans: degrees of freedom, ``unresolved`` and ``rare`` follow from the row totals.
    ``totals``: int (contexts,), tokens to be emitted after each context. ``probabilities``: float64
    (contexts, V), target rows; each sums to 1 within 1e-9. Raises ``ValueError`` if there is no
    token, totals are negative or not integers, shapes differ, V < 2 or a row is no law.
    """
    array = check_counts("totals", totals, 1)
    rows = check_probability_rows("probabilities", probabilities)
    if len(array) != len(rows):
        raise ValueError(f"totals has shape {array.shape}, expected ({len(rows)},): one per row")
    if not array.any():
        raise ValueError("totals are all 0, expected at least one token: skip this slot")
    seen = array > 0
    return _null_moments(_PoolLayout.of(array[seen], rows[seen]), array[seen])


def _null_moments(layout: "_PoolLayout", totals: Ints) -> G2:
    """Everything about the G2 that the counts have no part in."""
    tested = totals[layout.tested].astype(np.float64)
    cumulants = sum_of_cumulants(layout.means) - sum_of_cumulants(tested)
    rare = None
    if layout.rare.any():
        rare = RareTokens(
            count=0,
            expected=float(layout.expected[layout.rare].sum()),
            n=int(totals[layout.rare.any(axis=1)].sum()),
            pooled=layout.led,
        )
    possible = (layout.expected > 0.0).sum(axis=1)
    whole = totals[~layout.tested & (possible > 1)].sum()
    return G2(
        statistic=0.0,
        cumulants=(float(cumulants[0]), float(cumulants[1]), float(cumulants[2])),
        df=int(layout.means.size - tested.size),
        n=int(totals.sum()),
        unresolved=float(layout.blurred + whole),
        rare=rare,
    )


@dataclass(frozen=True, eq=False)
class _PoolLayout:
    """How the cells of rows with these totals are pooled; tokens in ascending probability."""

    order: Ints  # (rows, V)
    expected: Floats  # (rows, V) in that order
    flat: Ints  # (rows V,), the pool of each cell
    used: npt.NDArray[np.bool_]  # (rows, V), the pools that are tested
    means: Floats  # (cells,), what these expect
    tested: npt.NDArray[np.bool_]  # (rows,)
    rare: npt.NDArray[np.bool_]  # (rows, V), what one token of its pool outweighs by far
    led: float  # counts expected in the pools of these
    blurred: float  # counts expected in tested pools of several possible tokens

    @classmethod
    def of(cls, totals: Ints, rows: Floats) -> "_PoolLayout":
        law = rows / rows.sum(axis=1, keepdims=True)
        order = np.argsort(rows, axis=1, kind="stable")
        expected = totals[:, None] * np.take_along_axis(law, order, axis=1)
        group, cells = _assign_pools(expected)
        tested = cells >= 2
        group[~tested] = 0
        width = rows.shape[1]
        flat = (group + width * np.arange(len(rows))[:, None]).ravel()
        used = tested[:, None] & (np.arange(width) < cells[:, None])
        pooled = _pool_sums(flat, expected)
        members = _pool_sums(flat, expected > 0.0)
        # The last of its pool is its likeliest token: tokens ascend, and so do pools.
        last = np.append(np.diff(group, axis=1) > 0, np.ones((len(rows), 1), bool), axis=1)
        top = np.where(last, expected, 0.0)
        led = (members > 1) & (_pool_sums(flat, top) >= MIN_LIKELIEST * pooled)
        rare = np.take_along_axis(led, group, axis=1) & ~last & (expected > 0.0)
        return cls(
            order,
            expected,
            flat,
            used,
            pooled[used],
            tested,
            rare,
            float(pooled[led].sum()),
            float(pooled[used & (members > 1)].sum()),
        )

    def pooled(self, values: npt.NDArray[Any]) -> Floats:
        """Sum ``values`` (rows, V), in the order of the cells, over each pool."""
        return _pool_sums(self.flat, values)


def _pool_sums(flat: Ints, values: npt.NDArray[Any]) -> Floats:
    sums = np.bincount(flat, values.ravel(), values.size)
    return np.asarray(sums, dtype=np.float64).reshape(values.shape)


def _assign_pools(expected: Floats) -> tuple[Ints, Ints]:
    """Find each cell's pool, numbered from 0, and count the pools of each row (0: too few tokens).

    ``expected`` float64 (rows, V), ascending in each row. The k cells below 10 are laid end
    to end and cut into B equal lengths of at least 10 plus the longest of them; each belongs
    to the length in which it starts, so that every pool holds at least 10.
    """
    width = expected.shape[1]
    index = np.arange(width)
    small = (expected < MIN_EXPECTED).sum(axis=1)
    ends = np.cumsum(expected, axis=1)
    starts = ends - expected
    row = np.arange(len(expected))
    length = np.where(small > 0, ends[row, small - 1], 0.0)
    longest = np.where(small > 0, expected[row, small - 1], 0.0)
    pools = np.maximum(np.floor(length / (MIN_EXPECTED + longest)), length >= MIN_EXPECTED)
    pools = pools.astype(np.int64)
    step = length / np.maximum(pools, 1)
    position = starts / np.where(pools > 0, step, 1.0)[:, None]
    # A large cell may start any number of steps out, too many for an integer.
    within = np.minimum(position, np.maximum(pools - 1, 0)[:, None]).astype(np.int64)
    beyond = pools[:, None] + index - small[:, None]
    group = np.where(index < small[:, None], within, beyond)
    large = width - small
    cells = np.where((large == 0) & (pools == 0), 0, pools + large)
    return group.astype(np.int64), cells


# Are two emissions independent? Tables of disjoint pairs: calls in a row, or rows of a batch.
#
# Each emission follows the target, and the members of a pair are independent under the null;
# what a pair shares (a stream, a seed, a buffer) shows in their joint law alone. Pairs that
# share a member would not be independent of each other: their tables are 10 to 40 times too
# often beyond their level.


PIT_CELLS = 8  # equal cells of [0, 1) on each side of a table of pairs of PITs
MIN_TABLE = int(MIN_EXPECTED) * PIT_CELLS**2  # fewest pairs in such a table: each cell expects 10


def disjoint_pairs(n: int, lag: int, phase: int) -> Ints:
    """Indices i of the pairs (i, i + lag) within 0..n-1 that share no member.

    ``phase`` 0 or 1 takes one half of all pairs or, but for those at the ends, the other: together
    they meet every pair of neighbours. Raises ``ValueError`` if n or lag is below 1 or phase is
    neither 0 nor 1.
    """
    n, lag = check_positive_int("n", n), check_positive_int("lag", lag)
    if phase not in (0, 1):
        raise ValueError(f"phase is {phase}, expected 0 or 1")
    index = np.arange(max(n - lag, 0), dtype=np.int64)
    pairs: Ints = index[index // lag % 2 == phase]
    return pairs


def pair_g2(first: Any, second: Any, row: Any) -> G2:
    """G2 of the table of pairs of tokens, against the product of their known law.

    ``first``, ``second``: int (n,), tokens of the members of each pair; no member in two pairs, n
    fixed beforehand. ``row``: float64 (V,), law of either member; sums to 1 within 1e-9. Raises
    ``ValueError`` if shapes differ, there are no pairs, a token is outside 0..V-1 or the row is no
    law.
    """
    law = check_probability_rows("row", row, 1)
    a, b = _check_pairs(first, second, "iu")
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= law.size:
        raise ValueError(
            f"tokens span {min(a.min(), b.min())}..{max(a.max(), b.max())}, "
            f"expected 0..{law.size - 1}"
        )
    joint = np.outer(law, law).ravel()
    table = np.bincount(a * law.size + b, minlength=joint.size)
    return transition_g2(table[None], joint[None])


def pit_table(first: Any, second: Any) -> Ints:
    """Count pairs of PITs by cell, int64 (8, 8); tables of disjoint samples add up.

    ``first``, ``second``: float64 (n,), PITs in [0, 1] of the members of each pair; no member in
    two pairs. Raises ``ValueError`` if shapes differ, n is 0 or a PIT is NaN or outside [0, 1].
    """
    u, v = _check_pairs(first, second, "f")
    if not all(side.min() >= 0.0 and side.max() <= 1.0 for side in (u, v)):
        raise ValueError("a PIT is NaN or outside [0, 1], expected F(x-) + v P(x)")
    cells = [np.minimum((side * PIT_CELLS).astype(np.int64), PIT_CELLS - 1) for side in (u, v)]
    table = np.bincount(cells[0] * PIT_CELLS + cells[1], minlength=PIT_CELLS**2)
    return table.reshape(PIT_CELLS, PIT_CELLS)


def pit_table_g2(table: Any) -> G2:
    """G2 of a table of pairs of PITs against independent uniforms, whatever the vocabulary.

    ``table``: int (8, 8), as :func:`pit_table` counts it, of n pairs, n fixed beforehand. Raises
    ``ValueError`` if the table has another shape or negative entries, or fewer than 640 pairs: each
    cell must expect 10.
    """
    cells = check_counts("table", table, 2)
    if cells.shape != (PIT_CELLS, PIT_CELLS):
        raise ValueError(f"table has shape {cells.shape}, expected {(PIT_CELLS, PIT_CELLS)}")
    if cells.sum() < MIN_TABLE:
        raise ValueError(f"table holds {cells.sum()} pairs, expected {MIN_TABLE} or more")
    return transition_g2(cells.reshape(1, -1), np.full((1, cells.size), 1.0 / cells.size))


def _check_pairs(first: Any, second: Any, kinds: str) -> tuple[Any, Any]:
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"first, second have shapes {a.shape}, {b.shape}, expected (n,), n >= 1")
    if a.dtype.kind not in kinds or b.dtype.kind not in kinds:
        wanted = "integers" if kinds == "iu" else "floats"
        raise ValueError(f"first, second are {a.dtype}, {b.dtype}, expected {wanted}")
    return a, b


def duplicates_test(
    count: int,
    n: int,
    probability: float,
    *,
    alpha: float,
    ball: float = 0.0,
    name: str = "duplicates",
) -> TestResult:
    """Test that not too many pairs are equal: exact binomial, against excess alone.

    ``count``, ``n``: equal pairs of ``n`` disjoint ones, n fixed beforehand. ``probability``: that
    two independent emissions are equal: the sum of the squares of their law. ``ball``: TV distance
    by which the law of an emission may be off: twice that for equality. Raises ``ValueError`` if
    count is outside 0..n, n < 1, probability is outside [0, 1], alpha outside (0, 1) or ball
    outside [0, 1).
    """
    chance, radius = _max_equality_probability(probability, ball), check_row_tolerance(ball)
    test = acceptance_test([count], n, [0.0], [chance], alpha=alpha, name=name)
    return replace(
        test,
        method=with_row_tolerance("exact binomial", radius),
        deviation="excess of equal pairs",
        level=None,
    )


def duplicates_min_detectable(
    n: int, probability: float, *, alpha: float, power: float = 0.9, ball: float = 0.0
) -> float:
    """Smallest excess of the rate of equal pairs found with this power, inf if there is none.

    Raises ``ValueError`` if n < 1, probability is outside [0, 1], alpha or power outside (0, 1) or
    ball outside [0, 1).
    """
    chance = _max_equality_probability(probability, ball)
    shift = acceptance_min_detectable(n, [0.0], [chance], alpha=alpha, power=power)
    return shift + chance - probability


def _max_equality_probability(probability: float, ball: float) -> float:
    """Largest probability of equality within the ball."""
    if not 0.0 <= probability <= 1.0 + 1e-9:
        raise ValueError(f"probability is {probability}, expected a number in [0, 1]")
    return min(probability + 2.0 * check_row_tolerance(ball), 1.0)
