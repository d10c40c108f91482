"""Plans: how the false-alarm rate is split, when a run is looked at, what each test needs.

One table for all tests: what a deviation costs in each, or what a budget finds in each.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy

from simverify.stats._checks import (
    Floats,
    check_open_unit,
    check_positive_float,
    check_positive_int,
)
from simverify.stats.counts import g2_min_detectable, g2_samples
from simverify.stats.evalues import eprocess_min_detectable, eprocess_samples
from simverify.stats.means import acceptance_min_detectable, acceptance_samples
from simverify.stats.pits import (
    MIN_PAIRS,
    PIT_BINS,
    correlation_min_detectable,
    correlation_samples,
    ks_min_detectable,
    ks_samples,
)

# The split of one run's false-alarm rate over its tests.


BATTERY = {"likelihood ratios": 1 / 2, "scores": 1 / 4, "rest": 1 / 4}
"""Weights of the parts of the battery; each is split again inside."""


def split_alpha(alpha: float, weights: Mapping[str, float]) -> dict[str, float]:
    """Split ``alpha`` in proportion to ``weights`` (weighted Bonferroni).

    Returns one share per name, in the order of ``weights``; their exact sum never exceeds
    ``alpha``. Raises ``ValueError`` if alpha is outside (0, 1), no weights are given or one is not
    positive and finite.
    """
    alpha = check_open_unit("alpha", alpha)
    if not weights:
        raise ValueError("weights are empty, expected one per test")
    checked = {name: check_positive_float(f"weight of {name!r}", w) for name, w in weights.items()}
    total = math.fsum(checked.values())
    shares = {name: alpha * (weight / total) for name, weight in checked.items()}
    # Rounding may push the sum an ulp above alpha; the largest share pays.
    largest = max(shares, key=shares.__getitem__)
    while math.fsum(shares.values()) > alpha:
        shares[largest] = math.nextafter(shares[largest], 0.0)
    return shares


def adjusted_pvalues(log_pvalues: Any) -> Floats:
    """Adjust p-values for their number, by Holm's method: which of many tests point somewhere.

    They say where a deviation is, once a test at its share of alpha has said that there is one;
    they never say whether. ``log_pvalues``: float64 (tests,), natural logarithms of the p-values, 0
    at most; -inf for what the null excludes. Returns float64 (tests,). Raises ``ValueError`` if
    there is no p-value, or one is NaN or above 1.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979) 65-70.
    """
    # A third of a second, which no run without a finding has to wait for.
    from statsmodels.stats.multitest import multipletests

    logs = np.asarray(log_pvalues, dtype=np.float64)
    if logs.ndim != 1 or logs.size == 0 or not (logs <= 0.0).all():
        raise ValueError(
            f"log_pvalues has shape {logs.shape} or a number that is NaN or above 0, "
            "expected (tests,), one or more logarithms of p-values"
        )
    adjusted: Floats = multipletests(np.exp(logs), method="holm")[1]
    return adjusted


# What a claim costs and what a budget detects, in closed form, before any sample.
#
# Each pair of functions inverts one formula: ``*_samples`` from a deviation to tokens,
# ``*_min_detectable`` or ``*_bound`` back. Deviations are small and samples large, so sums are
# normal. The tests' own pairs (:func:`g2_samples`, :func:`ks_samples` and so on) do not need that.


TVBound = Literal["plug-in", "monotone"]

# Mean of the Kolmogorov law: what a healthy run's distance is, times sqrt(N).
_KOLMOGOROV_MEAN = math.sqrt(math.pi / 2.0) * math.log(2.0)


def mixing_samples(strength: float, chi2: float, *, alpha: float, power: float = 0.9) -> int:
    """Tokens with which the best score finds a fault mixed in at ``strength``, two-sided.

    38.1 / (strength^2 chi2) at alpha 1e-6 and power .9; chi2 = sum (P_m - P)^2 / P is the
    chi-square distance of the fault's law from the target's. Any law at TV d has strength^2 chi2 of
    4 d^2 or more. Raises ``ValueError`` if strength is outside (0, 1], chi2 is not positive, or
    alpha or power outside (0, 1).
    """
    if not 0.0 < strength <= 1.0:
        raise ValueError(f"strength is {strength}, expected a mixing share above 0 and up to 1")
    chi2 = check_positive_float("chi2", chi2)
    return math.ceil(_detection_threshold(alpha / 2.0, power) ** 2 / (strength * strength * chi2))


def mixing_min_detectable(n: int, chi2: float, *, alpha: float, power: float = 0.9) -> float:
    """Smallest strength that the best score finds with ``n`` tokens, inf if above 1.

    Raises ``ValueError`` if n < 1, chi2 is not positive, or alpha or power is outside (0, 1).
    """
    n, chi2 = check_positive_int("n", n), check_positive_float("chi2", chi2)
    strength = _detection_threshold(alpha / 2.0, power) / math.sqrt(n * chi2)
    return strength if strength <= 1.0 else math.inf


def ratio_samples(divergence: float, *, alpha: float, power: float = 0.9) -> int:
    """Tokens of the one-sided likelihood-ratio test of a fixed size.

    ``divergence`` is KL(P_m || P) in nats a token. A share of alpha over several faults is the
    caller's, as everywhere in this module. Raises ``ValueError`` if divergence is not positive and
    finite, or alpha or power is outside (0, 1).
    """
    divergence = check_positive_float("divergence", divergence)
    return math.ceil(_detection_threshold(alpha, power) ** 2 / (2.0 * divergence))


def ratio_min_detectable(n: int, *, alpha: float, power: float = 0.9) -> float:
    """Smallest KL(P_m || P), in nats a token, found by the likelihood ratio of ``n`` tokens.

    Raises ``ValueError`` if n < 1, or alpha or power is outside (0, 1).
    """
    return _detection_threshold(alpha, power) ** 2 / (2.0 * check_positive_int("n", n))


def refutation_samples(divergence: float, *, beta: float = 1e-3) -> int:
    """Tokens after which healthy code refutes a fault at ``beta``, on average.

    ln(1/beta) / divergence, with divergence KL(P || P_m) in nats a token (Wald); for a fault at
    theta standard deviations a token it is theta^2 / 2, and 14 / theta^2 tokens. Raises
    ``ValueError`` if divergence is not positive and finite, or beta is outside (0, 1).
    """
    divergence, beta = check_positive_float("divergence", divergence), check_open_unit("beta", beta)
    return math.ceil(-math.log(beta) / divergence)


def refutation_min_detectable(n: int, *, beta: float = 1e-3) -> float:
    """Smallest KL(P || P_m), in nats a token, that healthy code refutes in ``n`` tokens.

    Raises ``ValueError`` if n < 1, or beta is outside (0, 1).
    """
    return -math.log(check_open_unit("beta", beta)) / check_positive_int("n", n)


def certificate_samples(
    bound: float, *, method: TVBound, cells: int = 2, delta: float = 1e-3
) -> int:
    """Tokens after which healthy code is certified to have a TV distance of ``bound``.

    On average over runs. ``cells`` is the number of contexts times V, for the plug-in bound alone:
    its noise is at most sqrt(cells - 1) / 2 over sqrt(N) (Cauchy and Schwarz). Raises
    ``ValueError`` if ``bound`` or ``delta`` is outside (0, 1), cells < 2 or the method is unknown.
    """
    bound = check_open_unit("bound", bound)
    return math.ceil((_certificate_constant(method, cells, delta) / bound) ** 2)


def certificate_bound(n: int, *, method: TVBound, cells: int = 2, delta: float = 1e-3) -> float:
    """TV distance that ``n`` tokens of healthy code certify on average, 1 at most.

    Raises ``ValueError`` if n < 1, cells < 2, ``delta`` is outside (0, 1) or the method is unknown.
    """
    constant = _certificate_constant(method, cells, delta)
    return min(1.0, constant / math.sqrt(check_positive_int("n", n)))


def _certificate_constant(method: TVBound, cells: int, delta: float) -> float:
    delta, cells = check_open_unit("delta", delta), check_positive_int("cells", cells, 2)
    one_sided = math.sqrt(-math.log(delta) / 2.0)
    two_sided = math.sqrt(math.log(2.0 / delta) / 2.0)
    constants = {
        "plug-in": math.sqrt(cells - 1.0) / 2.0 + one_sided,
        "monotone": 2.0 * (_KOLMOGOROV_MEAN + two_sided),
    }
    if method not in constants:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(constants)}")
    return constants[method]


def _detection_threshold(tail: float, power: float) -> float:
    """Standard deviations between the null's mean and that of what is found with ``power``."""
    return float(
        scipy.special.ndtri(check_open_unit("power", power))
        - scipy.special.ndtri(check_open_unit("alpha", tail))
    )


# Looks at a run of fixed size before its end: few, and fixed beforehand.
#
# Every look spends its own share of alpha, so a run may fail at any of them. It passes at the last
# one alone, whose share is the largest.


LOOK_SCHEDULE = ((1 / 8, 1 / 8), (1 / 4, 1 / 8), (1 / 2, 1 / 4), (1.0, 1 / 2))
"""(fraction of the samples, share of alpha) of each look; both are exact in binary."""


@dataclass(frozen=True)
class Look:
    """Test the first ``samples`` of a run at level ``alpha``."""

    samples: int
    alpha: float


def plan_looks(samples: int, *, alpha: float) -> tuple[Look, ...]:
    """Return the looks of a run of ``samples``, in order; the last one is at its end.

    By Bonferroni the looks together err with probability ``alpha`` at most, whatever their
    dependence. Runs too short for four different looks have fewer, and leave alpha unspent. Raises
    ``ValueError`` if samples < 1 or alpha is outside (0, 1).
    """
    samples, alpha = check_positive_int("samples", samples), check_open_unit("alpha", alpha)
    looks: dict[int, Look] = {}
    for fraction, share in LOOK_SCHEDULE:
        n = math.ceil(fraction * samples)
        # Of two looks at the same number the later one has the larger share, and replaces.
        looks[n] = Look(n, share * alpha)
    return tuple(looks.values())


# The table of a plan: a row for each test.


RATIO_TESTS = 75  # faults times strengths that share the alpha of the likelihood ratios
SCORE_COUNT = 5  # scores in the bank, each per slot and pooled


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One test or certificate of a plan.

    ``level``: share of alpha that it decides at; beta or delta where it refutes or certifies.
    ``samples``: samples that find ``deviation`` with the promised power (that refute or certify it
    on average); inf if none do. ``unit``: what a sample is: tokens or blocks. ``deviation``: the
    deviation found; inf if these samples promise none. ``measure``: what the deviation is, and what
    is assumed of it.
    """

    test: str
    level: float
    samples: float
    unit: str
    deviation: float
    measure: str


@dataclass(frozen=True, kw_only=True)
class PlanTable:
    """All tests of one run at once, in the order of the battery."""

    alpha: float
    power: float
    vocab_size: int
    gamma: int
    rows: tuple[PlanRow, ...]


@dataclass(frozen=True)
class _PlanFormula:
    test: str
    level: float
    measure: str
    samples: Callable[[float], float]
    deviation: Callable[[int], float]
    unit: str = "tokens"

    def row(self, samples: float, deviation: float) -> PlanRow:
        return PlanRow(
            test=self.test,
            level=self.level,
            samples=samples,
            unit=self.unit,
            deviation=deviation if deviation <= 1.0 else math.inf,
            measure=self.measure,
        )


def plan_table(
    *,
    alpha: float = 1e-6,
    power: float = 0.9,
    deviation: float = 0.01,
    vocab_size: int,
    gamma: int,
    contexts: int = 1,
) -> PlanTable:
    """Samples that each test needs to find ``deviation``.

    Levels are those at the planned end of a run with four looks, whose alpha is split as the
    battery's. Where the deviation is a TV distance the samples suffice for every law at that
    distance that the row's measure allows: those of a named fault at d use KL >= 2 d^2 (Pinsker),
    which most faults beat. ``alpha``, ``power``: false-alarm rate of the whole run, and the power
    promised. ``deviation``: mean one-token TV distance; of accepted tokens, a shift of one Pr(tau
    >= l). ``contexts``: different prefixes that repeat, over all slots, whose transitions are
    counted. Raises ``ValueError`` if a rate or the deviation is outside (0, 1), V < 2, or gamma or
    contexts is below 1.
    """
    deviation = check_open_unit("deviation", deviation)
    lines = _plan_formulas(alpha, power, vocab_size, gamma, contexts)
    rows = tuple(line.row(line.samples(deviation), deviation) for line in lines)
    return PlanTable(alpha=alpha, power=power, vocab_size=vocab_size, gamma=gamma, rows=rows)


def budget_table(
    *,
    samples: int,
    alpha: float = 1e-6,
    power: float = 0.9,
    vocab_size: int,
    gamma: int,
    contexts: int = 1,
) -> PlanTable:
    """Deviation that each test finds with ``samples`` tokens or blocks; as :func:`plan_table`.

    Raises ``ValueError`` if a rate is outside (0, 1), V < 2, or samples, gamma or contexts is below
    1.
    """
    samples = check_positive_int("samples", samples)
    lines = _plan_formulas(alpha, power, vocab_size, gamma, contexts)
    rows = tuple(line.row(samples, line.deviation(samples)) for line in lines)
    return PlanTable(alpha=alpha, power=power, vocab_size=vocab_size, gamma=gamma, rows=rows)


def _plan_formulas(
    alpha: float, power: float, vocab_size: int, gamma: int, contexts: int
) -> tuple[_PlanFormula, ...]:
    vocab_size = check_positive_int("vocab_size", vocab_size, 2)
    gamma = check_positive_int("gamma", gamma)
    cells = check_positive_int("contexts", contexts) * vocab_size
    shares = split_alpha(check_open_unit("alpha", alpha), BATTERY)
    power, last = check_open_unit("power", power), LOOK_SCHEDULE[-1][1]
    # The gate at any time and the test at the planned end halve the share of the ratios.
    ratio = shares["likelihood ratios"] / 2.0
    score = last * shares["scores"] / (SCORE_COUNT * (gamma + 2))
    # Three orders of PITs, transitions, tau, and two kinds of independence.
    rest = last * shares["rest"] / 7.0
    half, beta, delta = [0.5] * gamma, 1e-3, 1e-3
    named, share = "TV of a named fault", 1 / RATIO_TESTS
    certificates: tuple[tuple[TVBound, str, int], ...] = (
        ("plug-in", "mean TV, every kind, in repeated contexts", cells),
        ("monotone", "mean TV, if P'/P is monotone in q/p", 2),
    )
    return (
        _PlanFormula(
            "named fault, at any time",
            ratio / RATIO_TESTS,
            named,
            lambda d: eprocess_samples(2 * d * d, alpha=ratio, weight=share, power=power),
            lambda n: math.sqrt(
                eprocess_min_detectable(n, alpha=ratio, weight=share, power=power) / 2
            ),
        ),
        _PlanFormula(
            "named fault, planned end",
            ratio / RATIO_TESTS,
            named,
            lambda d: ratio_samples(2 * d * d, alpha=ratio / RATIO_TESTS, power=power),
            lambda n: math.sqrt(
                ratio_min_detectable(n, alpha=ratio / RATIO_TESTS, power=power) / 2
            ),
        ),
        _PlanFormula(
            "score 1{q>p}",
            score,
            "mean TV, if P' - P changes sign where q = p",
            # The indicator of q > p has a variance of 1/4 at most: chi2 is 4 d^2 or more.
            lambda d: mixing_samples(1.0, 4 * d * d, alpha=score, power=power),
            lambda n: mixing_min_detectable(n, 4.0, alpha=score, power=power),
        ),
        _PlanFormula(
            "PIT-KS, q/p order",
            rest,
            "mean TV, if P'/P is monotone in q/p",
            lambda d: ks_samples(d, alpha=rest, power=power) if d > 1 / PIT_BINS else math.inf,
            lambda n: ks_min_detectable(n, alpha=rest, power=power),
        ),
        _PlanFormula(
            "transitions G2",
            rest,
            "mean TV, every kind, in repeated contexts",
            lambda d: g2_samples(d, cells - contexts, alpha=rest, power=power),
            lambda n: g2_min_detectable(cells - contexts, n, alpha=rest, power=power),
        ),
        _PlanFormula(
            "pairs, correlation",
            rest,
            "correlation of the PITs of tokens that follow each other",
            lambda d: correlation_samples(d, alpha=rest, power=power),
            lambda n: (
                correlation_min_detectable(n, alpha=rest, power=power)
                if n >= MIN_PAIRS
                else math.inf
            ),
        ),
        _PlanFormula(
            "acceptance",
            rest,
            "shift of one Pr(tau >= l) from 1/2",
            # Rates leave room for a shift of 1/2 at most; a larger one is found no later.
            lambda d: acceptance_samples(min(d, 0.49), half, half, alpha=rest, power=power),
            lambda n: acceptance_min_detectable(n, half, half, alpha=rest, power=power),
            "blocks",
        ),
        _PlanFormula(
            "named fault refuted",
            beta,
            f"{named}, on healthy code",
            lambda d: refutation_samples(2 * d * d, beta=beta),
            lambda n: math.sqrt(refutation_min_detectable(n, beta=beta) / 2),
        ),
        *(
            _PlanFormula(
                f"certificate, {method}",
                delta,
                f"{measure}, on healthy code",
                partial(certificate_samples, method=method, cells=size, delta=delta),
                partial(certificate_bound, method=method, cells=size, delta=delta),
            )
            for method, measure, size in certificates
        ),
    )
