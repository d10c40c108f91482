"""Likelihood ratios of named faults: sums that add up over shards, slots and streams.

A fault m is a law P_m for every context. Mixed at strength d it is (1-d) P + d P_m, and the
product over tokens of (1-d) + d P_m/P is an e-process: under P its expectation is 1 at most
whenever it is stopped. The logarithm of that product is all that is kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, count_rows, probability_rows, tv_ball

STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Strengths d at which every fault is mixed with the target."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RatioSums:
    """Log-likelihood ratios summed over tokens; sums of disjoint tokens add up.

    Attributes
    ----------
    names : tuple of str
        The M faults.
    n : int
        Tokens.
    log_evalues : float64 array (M, 5)
        Log of the e-value against the target, per fault and strength of ``STRENGTHS``: the
        likelihood ratio, less what the ball costs. +inf once a token came that the target
        excludes and the fault does not; -inf, for good, once one came that the fault excludes.
    log_refutations : float64 array (M, 5)
        Log of the e-value against the fault at this strength: the inverse ratio, less what
        the ball costs.
    growth : float64 array (M, 5)
        What ``log_evalues`` is expected to be if the fault is there at this strength; NaN
        where it is not known.
    ball : float
        TV distance of the declared rows from the true ones that both e-values allow for.
    """

    names: tuple[str, ...]
    n: int
    log_evalues: Floats
    log_refutations: Floats
    growth: Floats
    ball: float

    def __add__(self, other: "RatioSums") -> "RatioSums":
        if (self.names, self.ball) != (other.names, other.ball):
            raise ValueError(
                f"sums of faults {self.names} with ball {self.ball} and of {other.names} with "
                f"ball {other.ball} do not add up: build them with the same names and ball"
            )
        return RatioSums(
            names=self.names,
            n=self.n + other.n,
            log_evalues=log_product(np.stack([self.log_evalues, other.log_evalues])),
            log_refutations=log_product(np.stack([self.log_refutations, other.log_refutations])),
            growth=self.growth + other.growth,
            ball=self.ball,
        )


def ratio_sums(
    counts: Any,
    probabilities: Any,
    alternatives: Any,
    *,
    names: Sequence[str],
    ball: float = 0.0,
) -> RatioSums:
    """Sum the likelihood ratios of repeated contexts.

    A token that neither law allows counts as ratio 1; :func:`support_violations` sees it. With
    a ball, P_m/P is cut at 1/sqrt(ball), which leaves it an e-factor, and each factor is
    divided by 1 + ball (its supremum less its infimum): by so much at most its expectation
    rises in the ball.

    Parameters
    ----------
    counts : int array (contexts, V)
        Tokens emitted per context; slots may be stacked as further contexts.
    probabilities : float64 array (contexts, V)
        Target rows; each sums to 1 within 1e-9.
    alternatives : float64 array (M, contexts, V)
        Rows of each fault; each sums to 1 within 1e-9.
    names : sequence of str
        The M faults, all different.
    ball : float
        TV distance, 0 up to 1, of the rows from those that the verifier was given.

    Raises
    ------
    ValueError
        If counts are negative or not integers, shapes differ, V < 2, a row is no law, names
        are not M different ones or ball is outside [0, 1).

    References
    ----------
    .. [1] Grünwald, de Heide and Koolen, "Safe testing", J. R. Stat. Soc. B 86, 2024.
    .. [2] Huber, "A robust version of the probability ratio test", Ann. Math. Stat. 36, 1965
       (cut ratios for neighbourhoods).
    """
    array, rows = count_rows("counts", counts, probabilities)
    faults = _alternatives_iv(alternatives, rows.shape)
    checked, ball = _names_iv(names, faults.shape[0]), tv_ball(ball)
    totals = array.sum(axis=1)
    shape = (len(checked), len(STRENGTHS))
    forward, backward, growth = np.empty(shape), np.empty(shape), np.empty(shape)
    for m, fault in enumerate(faults):
        logs = log_ratios(fault, rows)
        either = (rows > 0.0) | (fault > 0.0)
        low = np.where(either, logs, math.inf).min(axis=1)
        high = np.where(either, logs, -math.inf).max(axis=1)
        for s, strength in enumerate(STRENGTHS):
            e_factor, inverse = factors(logs, strength, ball)
            cost, inverse_cost = costs(low, high, strength, ball)
            mixed = (1.0 - strength) * rows + strength * fault
            paid = float(totals @ cost)
            forward[m, s] = log_product(times(array, e_factor).ravel()) - paid
            backward[m, s] = log_product(times(array, inverse).ravel()) - float(
                totals @ inverse_cost
            )
            growth[m, s] = float(times(totals[:, None] * mixed, e_factor).sum()) - paid
    return RatioSums(
        names=checked,
        n=int(totals.sum()),
        log_evalues=forward,
        log_refutations=backward,
        growth=growth,
        ball=ball,
    )


def _alternatives_iv(alternatives: Any, shape: tuple[int, ...]) -> Floats:
    faults = np.asarray(alternatives, dtype=np.float64)
    if faults.ndim != 3 or faults.shape[1:] != shape or faults.shape[0] == 0:
        raise ValueError(f"alternatives has shape {faults.shape}, expected (M, {shape[0]}, "
                         f"{shape[1]}), one block of rows per fault")  # fmt: skip
    return probability_rows("alternatives", faults, ndim=3)


def _names_iv(names: Sequence[str], faults: int) -> tuple[str, ...]:
    checked = tuple(names)
    if len(checked) != faults or len(set(checked)) != faults or faults == 0:
        raise ValueError(f"names are {checked}, expected {faults} different ones, one per fault")
    return checked


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
