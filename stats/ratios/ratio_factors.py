"""Factors of the e-processes of named faults, token by token, and their logarithms' sums."""

import math
from typing import Any

import numpy as np

from simverify.stats._checks import Floats


def log_ratios(alternative: Floats, null: Floats) -> Floats:
    """ln(alternative/null), elementwise: +inf over a null of 0, 0 where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(alternative) - np.log(null)
    return np.where((alternative == 0.0) & (null == 0.0), 0.0, logs)


def mixed_ratios(logs: Floats, strength: float, ball: float) -> Floats:
    """Log of (1-d) + d r for log-ratios ln r and strength d; r is cut where there is a ball."""
    rest = math.log1p(-strength) if strength < 1.0 else -math.inf
    mixed: Floats = np.logaddexp(rest, math.log(strength) + np.minimum(logs, _cut(ball)))
    return mixed


def factors(logs: Floats, strength: float, ball: float) -> tuple[Floats, Floats]:
    """Log of the e-factor and of the one against the fault, the inverse, cut like it."""
    inverse = np.minimum(-mixed_ratios(logs, strength, 0.0), _cut(ball))
    return mixed_ratios(logs, strength, ball), inverse


def _cut(ball: float) -> float:
    return -0.5 * math.log(ball) if ball else math.inf


def costs(low: Floats, high: Floats, strength: float, ball: float) -> tuple[Floats, Floats]:
    """Log of 1 + ball (sup - inf), for the e-factor and for the inverse one."""
    if not ball:
        return np.zeros_like(low), np.zeros_like(low)
    (least, inverse_most), (most, inverse_least) = (
        factors(edge, strength, ball) for edge in (low, high)
    )
    return (
        np.log1p(ball * (np.exp(most) - np.exp(least))),
        np.log1p(ball * (np.exp(inverse_most) - np.exp(inverse_least))),
    )


def times(weights: Any, logs: Floats) -> Floats:
    """Weights times logs, where 0 times infinity is 0."""
    product: Floats = np.multiply(weights, logs, out=np.zeros(logs.shape), where=weights != 0)
    return product


def log_product(logs: Floats) -> Any:
    """Sum over the first axis, where -inf outweighs +inf: a product with a factor 0."""
    with np.errstate(invalid="ignore"):
        total = logs.sum(axis=0)
    return np.where((logs == -math.inf).any(axis=0), -math.inf, total)
