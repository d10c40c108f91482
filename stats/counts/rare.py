"""Tokens that should never come, and those that should hardly ever.

One of probability 0 is a fault with certainty. Of pools that nearly always draw the same token,
the other tokens are counted together.

Cells that expect too few tokens for a G2 are pooled, and it does not see what moves within a
pool. Together, the pools of one slot that one token leads still say how often any of the
others was drawn.

References
----------
Hoeffding, "On the distribution of the number of successes in independent trials", Annals of
Mathematical Statistics 27, 1956, theorem 4.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import count_rows, open_unit
from simverify.stats.results import TestResult
from simverify.stats.tails.log_tails import log_binom_sf


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

    Given the contexts of the slot, the count is a sum of independent indicators. From one
    above its mean on, its upper tail is at most that of the binomial law with as many trials
    and the same mean (Hoeffding); below, the p-value is 1. ``min_detectable`` is the mean
    one-token TV over these rows beyond which :func:`rare_hidden` lets nothing hide.

    Raises
    ------
    ValueError
        If alpha is outside (0, 1).
    """
    alpha = open_unit("alpha", alpha)
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
        df=None,
        method="count of unlikely tokens, binomial bound",
        min_detectable=hidden / rare.n if hidden < rare.pooled else math.inf,
        deviation="mean one-token TV of these rows, within pools",
    )


def rare_hidden(rare: RareTokens, *, alpha: float, power: float = 0.9) -> float:
    """Sum over the tokens of these rows of the TV distance that may stay unseen in the pools.

    Let a pool's leader have h and its others r under the target, h' and r' under the emitted
    law. The pool adds at most (|h' - h| + r + r')/2 to the TV distance of its row, of which
    the G2 sees |h' + r' - h - r|/2; the rest is at most (|r' - r| + r + r')/2 = max(r, r'),
    so its sum over tokens is at most sum r + sum r'. The first is ``expected``. A second
    sum of U or more, U the binomial mean whose upper tail at the critical count is ``power``,
    is found with this power (Hoeffding again, as U is above the critical count). So what
    may hide is ``expected`` + U, and never more than all that is ``pooled``.

    Raises
    ------
    ValueError
        If alpha or power is outside (0, 1).
    """
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    n, p = rare.n, rare.expected / rare.n
    least = math.ceil(rare.expected + 1.0)
    most = n + 1
    while least < most:
        middle = (least + most) // 2
        if log_binom_sf(middle - 1, n, p) < math.log(alpha):
            most = middle
        else:
            least = middle + 1
    if least > n:
        return rare.pooled
    mean = n * float(special.betaincinv(least, n - least + 1, power))
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

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context.
    probabilities : float64 array (contexts, V)
        The verifier's own target rows; each sums to 1.

    Raises
    ------
    ValueError
        If counts are negative or not integers, shapes differ, V < 2 or a row is no law.
    """
    array, rows = count_rows("counts", counts, probabilities)
    outside = (rows == 0.0) & (array > 0)
    if not outside.any():
        return SupportResult(0, None)
    context, token = (int(i) for i in np.unravel_index(int(outside.argmax()), outside.shape))
    return SupportResult(int(array[outside].sum()), (context, token, int(array[context, token])))
