"""Counts within a declared ball: counts of the rows themselves, but for a few tokens moved.

If the law of each token, given all before it, is within TV distance eps of its row, then it
can be drawn together with a token of the row itself so that the two differ with probability
eps at most. So the number of tokens that differ is at most a binomial(n, eps) one, and the
counts are those of the rows but for so many moves within their contexts. Whatever moves can
do to a statistic, its least value over m moves exceeds a critical value with the statistic's
own size at most, or more than m tokens were moved.

References
----------
Lindvall, "Lectures on the coupling method", 1992 (the maximal coupling).
"""

import math
from collections.abc import Callable

from simverify.stats.tails.log_tails import log_binom_sf


def log_pvalue(n: int, ball: float, log_tail: Callable[[int], float]) -> float:
    """Log p-value of n tokens, from ``log_tail(m)``, that of the least statistic over m moves.

    Half of the level pays for more moves than m, half for the tail: the p-value is twice the
    larger of both, at the best m. A test at level alpha that uses it has the m of alpha / 2.
    """

    def enough(moves: int) -> bool:
        return log_binom_sf(moves, n, ball) <= log_tail(moves)

    # Moves get rarer and tails fatter with m; beyond n there are none.
    most = _least(enough, n)
    found = max(log_binom_sf(most, n, ball), log_tail(most))
    if most > 0:
        found = min(found, log_binom_sf(most - 1, n, ball))
    return min(0.0, math.log(2.0) + found)


def most_moves(n: int, ball: float, *, alpha: float) -> int:
    """Tokens that a law within the ball moves at most, but for a chance of alpha / 2."""
    level = math.log(alpha / 2.0)
    return _least(lambda moves: log_binom_sf(moves, n, ball) <= level, n)


def _least(holds: Callable[[int], bool], most: int) -> int:
    """Least m in 0..most with ``holds(m)``, which is monotone and true at ``most``."""
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
