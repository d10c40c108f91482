"""Whether the mean of values in [0, 1] is above a limit: bets that pay where they are."""

import math
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import open_unit
from simverify.stats.results import TestResult

STAKES = (0.9, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Shares of the most that can be bet, 1 / limit, without ruin."""


def capped_mean_test(values: Any, *, limit: float, alpha: float, name: str) -> TestResult:
    """Test that values in [0, 1] have a mean of ``limit`` at most; ``statistic`` is their mean.

    A bet multiplies what it has by 1 + s (value / limit - 1). If each value's mean given those
    before is m_i, the product's is that of 1 + s (m_i / limit - 1), and no more than 1 where they
    are fixed and ``limit`` on average, as a product of factors is largest where they are equal.

    Parameters
    ----------
    values : float64 array (n,)
        Each in [0, 1]; n >= 1.
    limit : float
        Above 0, below 1.

    Raises
    ------
    ValueError
        If values are none, NaN or outside [0, 1], or limit or alpha outside (0, 1).

    References
    ----------
    .. [1] Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
       Journal of the Royal Statistical Society B 86 (2024) 1-27.
    """
    y, limit, alpha = _values_iv(values, limit, alpha)
    log_evalue = float(_log_evalues(y, limit)[-1])
    return TestResult(
        name=name,
        statistic=float(y.mean()),
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=y.size,
        df=None,
        method=f"e-value of bets that the mean is above {limit:.3g}",
        min_detectable=math.inf,
        deviation="mean",
    )


def values_needed(values: Any, *, limit: float, alpha: float) -> int | None:
    """How many of the values the same bets needed for a product of 1 / alpha; None: not there.

    Parameters and errors are those of :func:`capped_mean_test`.
    """
    y, limit, alpha = _values_iv(values, limit, alpha)
    reached = _log_evalues(y, limit) >= -math.log(alpha)
    return int(reached.argmax()) + 1 if reached.any() else None


def _values_iv(values: Any, limit: float, alpha: float) -> tuple[Any, float, float]:
    y = np.asarray(values, float)
    if y.ndim != 1 or not y.size or not ((y >= 0.0) & (y <= 1.0)).all():
        raise ValueError(f"values have shape {y.shape}: expected (n,), n >= 1, each in [0, 1]")
    return y, open_unit("limit", limit), open_unit("alpha", alpha)


def _log_evalues(y: Any, limit: float) -> Any:
    wins = [np.cumsum(np.log1p(stake * (y / limit - 1.0))) for stake in STAKES]
    return special.logsumexp(wins, axis=0, b=1.0 / len(STAKES))
