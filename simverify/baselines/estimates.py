"""Two-sample tests of accepted tokens, from what a run file holds.

The curve Pr(tau >= l) times the blocks is how many blocks kept l tokens or more. Of independent
blocks that is all that there is to know of tau: its mean and variance follow, exactly.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from simverify.errors import UsageError
from simverify.results import CompareResult

POWER = 0.9
_FEWEST_LANES = 3
_TERMS = 1 << 16

MOST_BLOCKS = 10**10
"""Blocks of a row: no command takes more, and beyond 2^53 a rate does not say its count."""


@dataclass(frozen=True)
class Tokens:
    """Accepted tokens of a run.

    ``variance``: of one block. ``blocks``: independent ones, or a number that gives the mean the
    error that the run states. ``freedom``: degrees of freedom of the variance. ``counts``: blocks
    with tau >= l, for l = 1..gamma; None where blocks depend on each other.
    """

    mean: float
    variance: float
    blocks: int
    freedom: float
    counts: tuple[int, ...] | None


def simulated_tokens(row: CompareResult, where: str) -> Tokens:
    """Return the tokens of a row of independent blocks.

    Raises ``UsageError`` if the curve is none, or does not add up to the mean.
    """
    n, curve = row.measured.blocks, row.acceptance_ccdf.measured
    if not (1 <= n <= MOST_BLOCKS and curve):
        raise UsageError(
            f"{where} has {n} blocks and a curve of {len(curve)}: expected 1 or more, and "
            f"{MOST_BLOCKS} blocks at most"
        )
    counts = tuple(round(rate * n) for rate in curve)
    whole = all(abs(k - rate * n) < 1e-3 for k, rate in zip(counts, curve, strict=True))
    falls = all(n >= a >= b >= 0 for a, b in zip((n, *counts), counts, strict=False))
    if not (whole and falls) or abs(sum(counts) / n - row.measured.mean) > 1e-6 * (len(curve) + 1):
        raise UsageError(f"{where}: its measured curve is not that of {n} blocks with its mean")
    return counted_tokens(counts, n)


def counted_tokens(counts: tuple[int, ...], n: int) -> Tokens:
    """Return the tokens of ``n`` independent blocks, ``counts`` of them with tau >= 1..gamma.

    The variance has a block at 0 and one at the largest tau beside those that were seen, so that
    blocks that are all alike do not promise that all others are.
    """
    top = len(counts)
    tau = np.arange(top + 1)
    histogram = -np.diff([n, *counts, 0]).astype(np.float64)
    histogram[[0, top]] += 1.0
    middle = float(tau @ histogram) / (n + 2)
    variance = float((tau - middle) ** 2 @ histogram) / (n + 1)
    return Tokens(sum(counts) / n, variance, n, n + 1.0, counts)


def real_tokens(row: CompareResult, lanes: int) -> Tokens | None:
    """Return the tokens of real models, whose blocks depend on each other within a lane.

    The error is that of the run's own interval, by Student's t over lanes. None if there are too
    few lanes for one.
    """
    if lanes < _FEWEST_LANES:
        return None
    told = row.measured
    half = max(told.ci_high - told.mean, told.mean - told.ci_low)
    error = half / float(stats.t.isf((1.0 - told.confidence) / 2.0, lanes - 1))
    return Tokens(told.mean, error**2 * told.blocks, told.blocks, lanes - 1.0, None)


def mean_pvalue(old: Tokens, new: Tokens) -> float:
    """Two-sided p-value of equal means, by Welch's t."""
    error, freedom = _error(old, new)
    if error == 0.0:
        return 1.0 if old.mean == new.mean else 0.0
    return float(2.0 * stats.t.sf(abs(new.mean - old.mean) / error, freedom))


def mean_interval(old: Tokens, new: Tokens, alpha: float) -> tuple[float, float]:
    """Interval of the difference of means, new less old, that misses it with probability alpha."""
    error, freedom = _error(old, new)
    half = float(stats.t.isf(alpha / 2.0, freedom)) * error
    return new.mean - old.mean - half, new.mean - old.mean + half


def rate_pvalue(old: int, n_old: int, new: int, n_new: int) -> float:
    """Two-sided p-value of equal rates: Fisher's exact test, twice its smaller tail.

    A root of the blocks in time; scipy adds up as many terms as there are blocks.
    """
    if new * n_old > old * n_new:
        old, n_old, new, n_new = new, n_new, old, n_old  # the tail of `new` and below is small
    kept, total = old + new, n_old + n_new
    share = n_new / total
    law = stats.binom
    # Three of Loader's binomial probabilities, which are exact where logarithms of factorials
    # cancel (the way of R's dhyper).
    at = float(
        law.pmf(new, kept, share)
        * law.pmf(n_new - new, total - kept, share)
        / law.pmf(n_new, total, share)
    )
    below = at * _falling(new, kept, n_new, total)
    return min(1.0, 2.0 * min(below, 1.0 - below + at))


def _falling(top: int, kept: int, drawn: int, total: int) -> float:
    """Return the sum of hypergeometric probabilities of ``top`` and below, over that of ``top``."""
    least = max(0, drawn + kept - total)
    whole, last, upper = 1.0, 1.0, top
    while upper > least and last > whole * 1e-20:
        k = np.arange(upper, max(least, upper - _TERMS), -1, dtype=np.float64)
        ratios = k / (kept - k + 1.0) * ((total - kept - drawn + k) / (drawn - k + 1.0))
        terms = last * np.cumprod(ratios)
        whole, last, upper = whole + float(terms.sum()), float(terms[-1]), upper - k.size
    return whole


def rate_interval(old: int, n_old: int, new: int, n_new: int, alpha: float) -> tuple[float, float]:
    """Newcombe's interval of the difference of rates, new less old."""
    # Half a second, which nothing else has to wait for.
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(
        new, n_new, old, n_old, compare="diff", method="newcomb", alpha=alpha
    )
    return float(low), float(high)


def detectable(old: Tokens, new: Tokens, alpha: float) -> float:
    """Drop of the mean that Welch's test finds with power .9."""
    error, freedom = _error(old, new)
    return error * float(stats.t.isf(alpha / 2.0, freedom) + stats.norm.ppf(POWER))


def blocks_needed(old: Tokens, new: Tokens, alpha: float, drop: float) -> tuple[int, bool]:
    """Blocks that find ``drop`` with power .9, and whether both runs need them.

    Of the new run alone where the baseline is long enough for that, and for no more than ten times
    its own blocks.
    """
    z = float(stats.norm.isf(alpha / 2.0) + stats.norm.ppf(POWER))
    room = (drop / z) ** 2 - old.variance / old.blocks
    if room > 0.0 and new.variance / room <= 10 * old.blocks:
        return _up(new.variance / room), False
    return _up((old.variance + new.variance) * (z / drop) ** 2), True


def _up(blocks: float) -> int:
    """Return a number with two digits, a little above: a plan is no promise to the last block."""
    scale = 10 ** max(0, math.floor(math.log10(max(blocks, 1.0))) - 1)
    return int(math.ceil(blocks * 1.02 / scale) * scale)


def _error(old: Tokens, new: Tokens) -> tuple[float, float]:
    """Return the standard error of the difference and Welch's degrees of freedom."""
    a, b = old.variance / old.blocks, new.variance / new.blocks
    if a + b == 0.0:
        return 0.0, min(old.freedom, new.freedom)
    return math.sqrt(a + b), (a + b) ** 2 / (a**2 / old.freedom + b**2 / new.freedom)
