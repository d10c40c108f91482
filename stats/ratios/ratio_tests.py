"""Named faults at a gate: whether any is there, which one fits best, which are refuted.

The gate is an e-process. It starts at 1 and has an expectation of 1 at most under the null
hypothesis, whenever it is stopped; it rejects once it reaches 1/alpha, at any time. Only its
logarithm, the log-wealth, is ever kept. What it needs (its growth, the tokens it takes, the
fault it finds) stands here too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from simverify.stats._checks import (
    Floats,
    Ints,
    count_rows,
    open_unit,
    positive_float,
    positive_int,
)
from simverify.stats.ratios.sums import STRENGTHS, RatioSums, log_ratios, mixed_ratios, ratio_sums
from simverify.stats.results import TestResult
from simverify.stats.tails.sum_tails import log_sum_bound, log_sum_sf, sum_deficit


def eprocess_growth(alpha: float, *, weight: float = 1.0, power: float = 0.9) -> float:
    """Expected log e-value, in nats, that carries an e-process over ln(1/alpha) with ``power``.

    (sqrt(b + z^2/2) + z/sqrt 2)^2 with b = ln(1/alpha) + ln(1/weight): the log-likelihood
    ratio has mean g and, for small deviations, a variance of nearly 2 g and a normal law.

    Raises
    ------
    ValueError
        If alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"weight is {weight}, expected a share above 0 and up to 1")
    hurdle = -math.log(alpha) - math.log(weight)
    z = float(special.ndtri(power))
    return (math.sqrt(hurdle + z * z / 2.0) + z / math.sqrt(2.0)) ** 2


def eprocess_samples(
    divergence: float, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> int:
    """Tokens after which an e-process has found a fault of this KL(P_m || P), in nats a token.

    ``weight`` is the share of the fault's e-value in the mean that is tested.

    Raises
    ------
    ValueError
        If divergence is not positive and finite, alpha or power is outside (0, 1) or weight
        outside (0, 1].
    """
    divergence = positive_float("divergence", divergence)
    return math.ceil(eprocess_growth(alpha, weight=weight, power=power) / divergence)


def eprocess_min_detectable(
    n: int, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> float:
    """Smallest KL(P_m || P), in nats a token, that an e-process finds within ``n`` tokens.

    Raises
    ------
    ValueError
        If n < 1, alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    return eprocess_growth(alpha, weight=weight, power=power) / positive_int("n", n)


@dataclass(frozen=True, kw_only=True)
class FaultAtStrength:
    """A fault, mixed with the target at ``strength``, and the e-value that speaks of it."""

    fault: str
    strength: float
    log_evalue: float


@dataclass(frozen=True, kw_only=True)
class RatioResult:
    """A test of the target against named faults.

    Attributes
    ----------
    test : TestResult
        The test; ``min_detectable`` is the smallest strength at which every one of the
        faults is found with probability .9.
    best : FaultAtStrength
        The mixture with the largest likelihood ratio: a diagnosis, without an error rate.
    refuted : tuple of FaultAtStrength
        Faults refuted at ``beta``, each at its smallest strength: the mixture with that
        strength or a larger one, and nothing else, is refuted.
    not_refuted : tuple of str
        The other faults.
    beta : float
        Rate at which a fault that is there at some strength is refuted at that strength.
    """

    test: TestResult
    best: FaultAtStrength
    refuted: tuple[FaultAtStrength, ...]
    not_refuted: tuple[str, ...]
    beta: float


def ratio_gate(
    sums: RatioSums, *, alpha: float, beta: float = 1e-3, name: str = "likelihood ratios"
) -> RatioResult:
    """Test the target by the mean of its e-values against every fault at every strength.

    The test rejects when the mean reaches 1/alpha. It may be asked as often as one likes, as
    the sums grow: the chance that a right verifier is ever rejected is alpha (Ville).

    Raises
    ------
    ValueError
        If alpha or beta is outside (0, 1).

    References
    ----------
    .. [1] Ville, "Étude critique de la notion de collectif", 1939.
    .. [2] Vovk and Wang, "E-values: calibration, combination and applications", Ann. Stat.
       49, 2021 (the mean of e-values is one).
    """
    alpha = open_unit("alpha", alpha)
    cells = sums.log_evalues.size
    log_evalue = float(special.logsumexp(sums.log_evalues)) - math.log(cells)
    found = sums.growth >= eprocess_growth(alpha, weight=1.0 / cells)
    test = TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sums.n,
        df=None,
        method=f"e-value, mean over {len(sums.names)} faults at {len(STRENGTHS)} strengths",
        min_detectable=_smallest_for_all(found),
        deviation="mixing strength of the faults",
    )
    return _result(test, sums, beta)


def ratio_test(
    counts: Any,
    probabilities: Any,
    alternatives: Any,
    *,
    names: Sequence[str],
    alpha: float,
    beta: float = 1e-3,
    ball: float = 0.0,
    name: str = "likelihood ratios, planned end",
) -> RatioResult:
    """Test the target against every fault at every strength, at a sample size fixed beforehand.

    The one-sided likelihood-ratio test of each, by the saddle-point tail given the row totals,
    and Bonferroni: it needs fewer tokens than :func:`ratio_gate`, but may be asked once. With
    a ball the tail is Chernoff's bound over the ball. Parameters are those of
    :func:`ratio_sums`. ``min_detectable`` uses the normal law of the log-likelihood ratio.

    Raises
    ------
    ValueError
        As :func:`ratio_sums`, and if there is no token, or alpha or beta is outside (0, 1).
    """
    sums = ratio_sums(counts, probabilities, alternatives, names=names, ball=ball)
    alpha = open_unit("alpha", alpha)
    array, rows = count_rows("counts", counts, probabilities)
    if sums.n == 0:
        raise ValueError("counts are all 0, expected at least one token")
    totals = array.sum(axis=1)
    log_pvalues = np.empty(sums.log_evalues.shape)
    for m, fault in enumerate(np.asarray(alternatives, dtype=np.float64)):
        logs = log_ratios(fault, rows)
        for s, strength in enumerate(STRENGTHS):
            values = mixed_ratios(logs, strength, ball)
            log_pvalues[m, s] = _log_pvalue(array, rows, totals, values, ball)
    cells = log_pvalues.size
    z = float(special.ndtri(0.9) - special.ndtri(alpha / cells))
    worst = np.unravel_index(int(log_pvalues.argmin()), log_pvalues.shape)
    test = TestResult(
        name=name,
        statistic=float(sums.log_evalues[worst]),
        log_pvalue=min(0.0, float(log_pvalues[worst]) + math.log(cells)),
        alpha=alpha,
        n=sums.n,
        df=None,
        method=f"likelihood ratio, {'Chernoff bound' if ball else 'saddle-point'}, Bonferroni "
        f"over {len(sums.names)} faults at {len(STRENGTHS)} strengths",
        min_detectable=_smallest_for_all(sums.growth >= z * z / 2.0),
        deviation="mixing strength of the faults",
    )
    return _result(test, sums, beta)


def _log_pvalue(array: Ints, rows: Floats, totals: Ints, values: Floats, ball: float) -> float:
    seen = values[array > 0]
    if (seen == -math.inf).any():
        return 0.0
    if (seen == math.inf).any():
        return -math.inf
    if ball:
        threshold = float((array[array > 0] * seen).sum())
        return log_sum_bound(values, rows, totals, threshold, ball=ball)
    return log_sum_sf(values, rows, totals, sum_deficit(values, rows, array))


def _smallest_for_all(found: Any) -> float:
    """Smallest strength such that it and every larger one is found for every fault."""
    held = np.logical_and.accumulate(found.all(axis=0))
    return STRENGTHS[int(held.sum()) - 1] if held.any() else math.inf


def _result(test: TestResult, sums: RatioSums, beta: float) -> RatioResult:
    hurdle = -math.log(open_unit("beta", beta))
    m, s = (
        int(i) for i in np.unravel_index(int(sums.log_evalues.argmax()), sums.log_evalues.shape)
    )
    best = FaultAtStrength(
        fault=sums.names[m], strength=STRENGTHS[s], log_evalue=float(sums.log_evalues[m, s])
    )
    refuted = []
    for fault, logs in zip(sums.names, sums.log_refutations, strict=True):
        # Strengths fall: the log-likelihood is concave in the strength and 0 at 0, so that a
        # strength is refuted at least as strongly as any smaller one. A ball breaks that.
        held = int(np.logical_and.accumulate(logs >= hurdle).sum())
        if held:
            refuted.append(
                FaultAtStrength(
                    fault=fault, strength=STRENGTHS[held - 1], log_evalue=float(logs[held - 1])
                )
            )
    gone = {entry.fault for entry in refuted}
    return RatioResult(
        test=test,
        best=best,
        refuted=tuple(refuted),
        not_refuted=tuple(fault for fault in sums.names if fault not in gone),
        beta=beta,
    )
