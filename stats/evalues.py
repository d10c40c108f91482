"""E-values: bets against the target, learned token rates, and the gate for named faults.

The gate is an e-process. It starts at 1 and has an expectation of 1 at most under the null
hypothesis, whenever it is stopped; it rejects once it reaches 1/alpha, at any time. Only its
logarithm, the log-wealth, is ever kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from simverify.stats._checks import (
    Floats,
    Ints,
    TestResult,
    add_fields,
    check_count_rows,
    check_open_unit,
    check_positive_float,
    check_positive_int,
    check_probability_rows,
    check_row_tolerance,
)
from simverify.stats.scores import log_sum_bound, log_sum_sf, sum_deficit

# Bets against the target: e-values of tokens in contexts that never repeat, streamed.
#
# A bet is a ratio r of an alternative's chance of a token to the target's. At a share s the factor
# is (1 - s) + s r, whose expectation under the target is 1 at most, given all that came before, so
# that products of factors are e-values. Unlike :func:`ratio_sums` no ball has to be known yet.


RATIO_CAP = 64.0  # largest ratio that is bet with: what a ball costs grows with it


@dataclass(frozen=True, kw_only=True, eq=False)
class BetSums:
    """Bets over ``n`` tokens; sums over later tokens add up.

    ``names``: of the B bets. ``log_wealth``: float64 (B,), the sum of the factors' logs.
    ``widest``: float64 (B,), the largest span there was, a factor's supremum over tokens less its
    infimum.
    """

    names: tuple[str, ...]
    n: int
    log_wealth: Floats
    widest: Floats

    def __add__(self, other: "BetSums") -> "BetSums":
        if self.names != other.names:
            raise ValueError(f"bets {self.names} and {other.names} do not add up")
        widest = np.maximum(self.widest, other.widest)
        return add_fields(self, other, names=self.names, widest=widest)

    def beside(self, other: "BetSums") -> "BetSums":
        """Return these bets and ``other`` ones on the same tokens."""
        return replace(
            self,
            names=self.names + other.names,
            log_wealth=np.concatenate([self.log_wealth, other.log_wealth]),
            widest=np.concatenate([self.widest, other.widest]),
        )

    def best(self) -> str:
        """Name of the bet that won most: a diagnosis, without an error rate."""
        return self.names[int(self.log_wealth.argmax())]


def bet_sums(name: str, ratios: Any, low: Any, high: Any, *, shares: Sequence[float]) -> BetSums:
    """Bet at each of ``shares``.

    ``name``: of the alternative; the bets are called so, each with its share. ``ratios``: float64
    (n,), alternative's chance of each emitted token over that under its row, inf where that is 0;
    its expectation under the row, given all before, is 1 at most. ``low``, ``high``: float64 (n,),
    least and largest such ratio over all tokens of the row. ``shares``: each above 0, 1 at most.
    Raises ``ValueError`` if shapes differ, n is 0, a ratio is negative, NaN or not between its
    limits, or shares are none or outside (0, 1].
    """
    r, least, most = (np.asarray(x, dtype=np.float64) for x in (ratios, low, high))
    if r.ndim != 1 or not r.size or not r.shape == least.shape == most.shape:
        raise ValueError(
            f"ratios has shape {r.shape}, low {least.shape}, high {most.shape}: "
            "expected (n,), n >= 1"
        )
    if not ((least >= 0.0) & (least <= r * (1 + 1e-9)) & (r <= most * (1 + 1e-9))).all():
        raise ValueError("a ratio is negative, NaN or outside its limits: expected none")
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError(f"shares are {tuple(shares)}, expected some above 0 and at most 1")
    r, least, most = (np.minimum(x, RATIO_CAP) for x in (r, least, most))
    with np.errstate(divide="ignore"):
        logs = [float(np.log1p(share * (r - 1.0)).sum()) for share in shares]
    return BetSums(
        names=tuple(f"{name}, share {share:g}" for share in shares),
        n=r.size,
        log_wealth=np.array(logs),
        widest=np.array(shares) * float((most - least).max()),
    )


def bet_test(
    sums: BetSums, *, alpha: float, ball: float = 0.0, name: str = "bets", deviation: str = "bets"
) -> TestResult:
    """Test the target by the mean of the bets' e-values; ``statistic`` is its logarithm.

    No power is promised: what a bet gains is known where its alternative holds alone. ``ball``: TV
    distance by which rows may be off, on average over contexts. The expectation of a factor rises
    by a row's own distance times its span at most. The rows that are off may be those of the widest
    span w, so that (1 + ball w)^n divides the e-value, which is the most that the product of 1 +
    distance w comes to at that average. Raises ``ValueError`` if alpha is outside (0, 1) or ball
    outside [0, 1).

    Source: Vovk and Wang, "E-values: calibration, combination and applications", Annals of
    Statistics 49 (2021) 1736-1754 (the mean of e-values is one).
    """
    alpha, radius = check_open_unit("alpha", alpha), check_row_tolerance(ball)
    price = sums.n * np.log1p(radius * sums.widest)
    log_evalue = float(scipy.special.logsumexp(sums.log_wealth - price)) - math.log(len(sums.names))
    return TestResult(
        name=name,
        statistic=log_evalue if math.isfinite(log_evalue) else -1e308,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sums.n,
        method=f"e-value, mean over {len(sums.names)} bets",
        deviation=deviation,
    )


def bet_power(
    n: int, *, mean: float, variance: float, alpha: float, bets: int, price: float = 0.0
) -> float:
    """Return the power of :func:`bet_test` against what one of ``bets`` bets wins by itself.

    By the normal approximation of a sum of ``n`` logarithms of factors, each with this ``mean`` and
    ``variance`` under the alternative, less ``price``, log(1 + ball w) of a span w. What other bets
    win comes on top. Raises ``ValueError`` if n or bets is below 1, alpha outside (0, 1), mean not
    finite, or variance or price negative or not finite.
    """
    n = check_positive_int("n", n)
    gain, needed = _gain_and_price(mean, variance, price, alpha, bets)
    if variance == 0.0:
        return float(n * gain > needed)
    return float(scipy.special.ndtr((n * gain - needed) / math.sqrt(n * variance)))


def bet_samples(
    *, mean: float, variance: float, alpha: float, bets: int, price: float = 0.0, power: float = 0.9
) -> int | None:
    """Return the least n with so much :func:`bet_power`; None where none has: nothing is won.

    Raises ``ValueError`` as :func:`bet_power` does, or if power is outside (0, 1).
    """
    gain, needed = _gain_and_price(mean, variance, price, alpha, bets)
    z = float(scipy.special.ndtri(check_open_unit("power", power)))
    if gain <= 0.0:
        return None
    # n gain - needed = z sqrt(n variance), solved for the root of n.
    spread = z * math.sqrt(variance)
    root = (spread + math.sqrt(spread**2 + 4.0 * gain * needed)) / (2.0 * gain)
    return math.ceil(root**2)


def _gain_and_price(
    mean: float, variance: float, price: float, alpha: float, bets: int
) -> tuple[float, float]:
    """Return what a token wins, and what all have to win: of ``bets`` bets the mean counts."""
    if not math.isfinite(mean):
        raise ValueError(f"mean is {mean}, expected a finite number")
    for name, value in (("variance", variance), ("price", price)):
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is {value}, expected a finite number, 0 or more")
    hurdle = check_positive_int("bets", bets) / check_open_unit("alpha", alpha)
    return mean - price, math.log(hurdle)


# Tokens that come too often, or too rarely, in all contexts alike: bets that learn as they go.
#
# Rounded weights, a logit bias or a head whose rows are mixed up make some tokens likelier and
# others rarer wherever they may come. Nobody knows which beforehand; the tokens so far tell.


PRIOR_COUNTS = (3.0, 30.0, 300.0)
"""Expected counts at which half of an excess is believed, one for each bet."""


class LearnedRates:
    """Bets on each token's rate, (O + a) / (E + a): O its count so far, E what the rows expect.

    The alternative of a request is its rows, tilted by the rates of the requests before alone.

    Source: [1] Clayton and Kaldor, "Empirical Bayes estimates of age-standardized relative risks",
    Biometrics 43 (1987) 671-681 (rates that a gamma prior shrinks); [2] Waudby-Smith and Ramdas,
    "Estimating means of bounded random variables by betting", J. R. Stat. Soc. B 86 (2024) 1-27
    (bets that learn from what came before).
    """

    def __init__(self) -> None:
        self.sums: BetSums | None = None
        self._seen: Floats | None = None
        self._expected: Floats | None = None

    def add(self, p: Any, tokens: Any) -> None:
        """Bet on the tokens of a request, then learn from them.

        ``p``: float64 (n, V), law of each token; each row sums to 1. ``tokens``: int (n,), emitted
        tokens. Raises ``ValueError`` if a row is no law or V is not that of the requests before.
        """
        rows, ids = check_probability_rows("p", p), np.asarray(tokens)
        if self._seen is None or self._expected is None:
            self._seen, self._expected = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        elif self._seen.shape != rows.shape[1:]:
            raise ValueError(f"V is {rows.shape[1]}, expected {self._seen.size} as before")
        combined: BetSums | None = None
        for prior in PRIOR_COUNTS:
            rates = (self._seen + prior) / (self._expected + prior)
            mean = rows @ rates
            bet = bet_sums(
                f"rates, prior {prior:g}",
                rates[ids] / mean,
                rates.min() / mean,
                rates.max() / mean,
                shares=(1.0,),
            )
            combined = bet if combined is None else combined.beside(bet)
        assert combined is not None
        self.sums = combined if self.sums is None else self.sums + combined
        self._seen = self._seen + np.bincount(ids, minlength=rows.shape[1])
        self._expected = self._expected + rows.sum(axis=0)


# Likelihood ratios of named faults: sums that add up over shards, slots and streams.
#
# A fault m is a law P_m for every context. Mixed at strength d it is (1-d) P + d P_m, and the
# product over tokens of (1-d) + d P_m/P is an e-process: under P its expectation is 1 at most
# whenever it is stopped. The logarithm of that product is all that is kept.


STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)  # strengths d at which every fault is mixed with the target


@dataclass(frozen=True, kw_only=True, eq=False)
class RatioSums:
    """Log-likelihood ratios summed over tokens; sums of disjoint tokens add up.

    ``names``: the M faults. ``n``: tokens. ``log_evalues``: float64 (M, 5), log of the e-value
    against the target, per fault and strength of ``STRENGTHS``: the likelihood ratio, less what the
    ball costs. +inf once a token came that the target excludes and the fault does not; -inf, for
    good, once one came that the fault excludes. ``log_refutations``: float64 (M, 5), log of the
    e-value against the fault at this strength: the inverse ratio, less what the ball costs.
    ``growth``: float64 (M, 5), what ``log_evalues`` is expected to be if the fault is there at this
    strength; NaN where it is not known. ``ball``: TV distance of the declared rows from the true
    ones that both e-values allow for.
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
        refutations = np.stack([self.log_refutations, other.log_refutations])
        return replace(
            self,
            n=self.n + other.n,
            log_evalues=safe_log_product(np.stack([self.log_evalues, other.log_evalues])),
            log_refutations=safe_log_product(refutations),
            growth=self.growth + other.growth,
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

    A token that neither law allows counts as ratio 1; :func:`support_violations` sees it. With a
    ball, P_m/P is cut at 1/sqrt(ball), which leaves it an e-factor, and each factor is divided by 1
    + ball (its supremum less its infimum): by so much at most its expectation rises in the ball.
    ``counts``: int (contexts, V), tokens emitted per context; slots may be stacked as further
    contexts. ``probabilities``: float64 (contexts, V), target rows; each sums to 1 within 1e-9.
    ``alternatives``: float64 (M, contexts, V), rows of each fault; each sums to 1 within 1e-9.
    ``names``: the M faults, all different. ``ball``: TV distance, 0 up to 1, of the rows from those
    that the verifier was given. Raises ``ValueError`` if counts are negative or not integers,
    shapes differ, V < 2, a row is no law, names are not M different ones or ball is outside [0, 1).

    Source: [1] Grünwald, de Heide and Koolen, "Safe testing", J. R. Stat. Soc. B 86, 2024; [2]
    Huber, "A robust version of the probability ratio test", Ann. Math. Stat. 36, 1965 (cut ratios
    for neighbourhoods).
    """
    array, rows = check_count_rows("counts", counts, probabilities)
    faults = np.asarray(alternatives, dtype=np.float64)
    if faults.ndim != 3 or faults.shape[1:] != rows.shape or faults.shape[0] == 0:
        raise ValueError(
            f"alternatives has shape {faults.shape}, expected (M, {rows.shape[0]}, "
            f"{rows.shape[1]}), one block of rows per fault"
        )
    check_probability_rows("alternatives", faults, ndim=3)
    checked, ball = tuple(names), check_row_tolerance(ball)
    if not len(checked) == len(set(checked)) == len(faults):
        raise ValueError(
            f"names are {checked}, expected {len(faults)} different ones, one per fault"
        )
    totals = array.sum(axis=1)
    shape = (len(checked), len(STRENGTHS))
    forward, backward, growth = np.empty(shape), np.empty(shape), np.empty(shape)
    for m, fault in enumerate(faults):
        logs = log_ratios(fault, rows)
        either = (rows > 0.0) | (fault > 0.0)
        low = np.where(either, logs, math.inf).min(axis=1)
        high = np.where(either, logs, -math.inf).max(axis=1)
        for s, strength in enumerate(STRENGTHS):
            e_factor, inverse = log_factors(logs, strength, ball)
            cost, inverse_cost = tolerance_costs(low, high, strength, ball)
            mixed = (1.0 - strength) * rows + strength * fault
            paid, inverse_paid = float(totals @ cost), float(totals @ inverse_cost)
            forward[m, s] = safe_log_product(zero_safe_product(array, e_factor).ravel()) - paid
            against = safe_log_product(zero_safe_product(array, inverse).ravel())
            backward[m, s] = against - inverse_paid
            growth[m, s] = float(zero_safe_product(totals[:, None] * mixed, e_factor).sum()) - paid
    return RatioSums(
        names=checked,
        n=int(totals.sum()),
        log_evalues=forward,
        log_refutations=backward,
        growth=growth,
        ball=ball,
    )


def log_ratios(alternative: Floats, null: Floats) -> Floats:
    """ln(alternative/null), elementwise: +inf over a null of 0, 0 where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(alternative) - np.log(null)
    return np.where((alternative == 0.0) & (null == 0.0), 0.0, logs)


def mixed_ratios(logs: Floats, strength: float, ball: float) -> Floats:
    """Log of (1-d) + d r for log-ratios ln r and strength d; r is cut where there is a ball."""
    rest = math.log1p(-strength) if strength < 1.0 else -math.inf
    mixed: Floats = np.logaddexp(rest, math.log(strength) + np.minimum(logs, _ratio_cut(ball)))
    return mixed


def log_factors(logs: Floats, strength: float, ball: float) -> tuple[Floats, Floats]:
    """Log of the e-factor and of the one against the fault, the inverse, cut like it."""
    inverse = np.minimum(-mixed_ratios(logs, strength, 0.0), _ratio_cut(ball))
    return mixed_ratios(logs, strength, ball), inverse


def _ratio_cut(ball: float) -> float:
    return -0.5 * math.log(ball) if ball else math.inf


def tolerance_costs(
    low: Floats, high: Floats, strength: float, ball: float
) -> tuple[Floats, Floats]:
    """Log of 1 + ball (sup - inf), for the e-factor and for the inverse one."""
    if not ball:
        return np.zeros_like(low), np.zeros_like(low)
    least, inverse_most = np.exp(log_factors(low, strength, ball))
    most, inverse_least = np.exp(log_factors(high, strength, ball))
    return np.log1p(ball * (most - least)), np.log1p(ball * (inverse_most - inverse_least))


def zero_safe_product(weights: Any, logs: Floats) -> Floats:
    """Weights times logs, where 0 times infinity is 0."""
    product: Floats = np.multiply(weights, logs, out=np.zeros(logs.shape), where=weights != 0)
    return product


def safe_log_product(logs: Floats) -> Any:
    """Sum over the first axis, where -inf outweighs +inf: a product with a factor 0."""
    with np.errstate(invalid="ignore"):
        total = logs.sum(axis=0)
    return np.where((logs == -math.inf).any(axis=0), -math.inf, total)


# The gate for named faults: whether any is there, which one fits best, which are refuted.
#
# Its plan too: the growth of the log-wealth, the tokens it takes, the fault it finds.


def eprocess_growth(alpha: float, *, weight: float = 1.0, power: float = 0.9) -> float:
    """Expected log e-value, in nats, that carries an e-process over ln(1/alpha) with ``power``.

    (sqrt(b + z^2/2) + z/sqrt 2)^2 with b = ln(1/alpha) + ln(1/weight): the log-likelihood ratio has
    mean g and, for small deviations, a variance of nearly 2 g and a normal law. Raises
    ``ValueError`` if alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    alpha, power = check_open_unit("alpha", alpha), check_open_unit("power", power)
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"weight is {weight}, expected a share above 0 and up to 1")
    hurdle = -math.log(alpha) - math.log(weight)
    z = float(scipy.special.ndtri(power))
    return (math.sqrt(hurdle + z * z / 2.0) + z / math.sqrt(2.0)) ** 2


def eprocess_samples(
    divergence: float, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> int:
    """Tokens after which an e-process has found a fault of this KL(P_m || P), in nats a token.

    ``weight`` is the share of the fault's e-value in the mean that is tested. Raises ``ValueError``
    if divergence is not positive and finite, alpha or power is outside (0, 1) or weight outside (0,
    1].
    """
    divergence = check_positive_float("divergence", divergence)
    return math.ceil(eprocess_growth(alpha, weight=weight, power=power) / divergence)


def eprocess_min_detectable(
    n: int, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> float:
    """Smallest KL(P_m || P), in nats a token, that an e-process finds within ``n`` tokens.

    Raises ``ValueError`` if n < 1, alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    return eprocess_growth(alpha, weight=weight, power=power) / check_positive_int("n", n)


@dataclass(frozen=True, kw_only=True)
class FaultAtStrength:
    """A fault, mixed with the target at ``strength``, and the e-value that speaks of it."""

    fault: str
    strength: float
    log_evalue: float


@dataclass(frozen=True, kw_only=True)
class RatioResult:
    """A test of the target against named faults.

    ``test``: the test; ``min_detectable`` is the smallest strength at which every one of the faults
    is found with probability .9. ``best``: the mixture with the largest likelihood
    ratio: a diagnosis, without an error rate. ``refuted``: faults refuted
    at ``beta``, each at its smallest strength: the mixture with that strength or a larger one, and
    nothing else, is refuted. ``not_refuted``: the other faults. ``beta``: rate at which a fault
    that is there at some strength is refuted at that strength.
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

    The test rejects when the mean reaches 1/alpha. It may be asked as often as one likes, as the
    sums grow: the chance that a right verifier is ever rejected is alpha (Ville). Raises
    ``ValueError`` if alpha or beta is outside (0, 1).

    Source: [1] Ville, "Étude critique de la notion de collectif", 1939; [2] Vovk and Wang,
    "E-values: calibration, combination and applications", Ann. Stat. 49, 2021 (the mean of e-values
    is one).
    """
    alpha = check_open_unit("alpha", alpha)
    cells = sums.log_evalues.size
    log_evalue = float(scipy.special.logsumexp(sums.log_evalues)) - math.log(cells)
    detected = sums.growth >= eprocess_growth(alpha, weight=1.0 / cells)
    test = TestResult(
        name=name,
        statistic=log_evalue,
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=sums.n,
        method=f"e-value, mean over {len(sums.names)} faults at {len(STRENGTHS)} strengths",
        min_detectable=_smallest_for_all(detected),
        deviation="mixing strength of the faults",
    )
    return _ratio_result(test, sums, beta)


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

    The one-sided likelihood-ratio test of each, by the saddle-point tail given the row totals, and
    Bonferroni: it needs fewer tokens than :func:`ratio_gate`, but may be asked once. With a ball
    the tail is Chernoff's bound over the ball. Parameters are those of :func:`ratio_sums`.
    ``min_detectable`` uses the normal law of the log-likelihood ratio. Raises ``ValueError`` as
    :func:`ratio_sums`, and if there is no token, or alpha or beta is outside (0, 1).
    """
    sums = ratio_sums(counts, probabilities, alternatives, names=names, ball=ball)
    alpha = check_open_unit("alpha", alpha)
    array, rows = check_count_rows("counts", counts, probabilities)
    if sums.n == 0:
        raise ValueError("counts are all 0, expected at least one token")
    totals = array.sum(axis=1)
    log_pvalues = np.empty(sums.log_evalues.shape)
    for m, fault in enumerate(np.asarray(alternatives, dtype=np.float64)):
        logs = log_ratios(fault, rows)
        for s, strength in enumerate(STRENGTHS):
            values = mixed_ratios(logs, strength, ball)
            log_pvalues[m, s] = _ratio_log_pvalue(array, rows, totals, values, ball)
    cells = log_pvalues.size
    z = float(scipy.special.ndtri(0.9) - scipy.special.ndtri(alpha / cells))
    worst = np.unravel_index(int(log_pvalues.argmin()), log_pvalues.shape)
    test = TestResult(
        name=name,
        statistic=float(sums.log_evalues[worst]),
        log_pvalue=min(0.0, float(log_pvalues[worst]) + math.log(cells)),
        alpha=alpha,
        n=sums.n,
        method=f"likelihood ratio, {'Chernoff bound' if ball else 'saddle-point'}, Bonferroni "
        f"over {len(sums.names)} faults at {len(STRENGTHS)} strengths",
        min_detectable=_smallest_for_all(sums.growth >= z * z / 2.0),
        deviation="mixing strength of the faults",
    )
    return _ratio_result(test, sums, beta)


def _ratio_log_pvalue(
    array: Ints, rows: Floats, totals: Ints, values: Floats, ball: float
) -> float:
    seen = values[array > 0]
    if (seen == -math.inf).any():
        return 0.0
    if (seen == math.inf).any():
        return -math.inf
    if ball:
        threshold = float((array[array > 0] * seen).sum())
        return log_sum_bound(values, rows, totals, threshold, ball=ball)
    return log_sum_sf(values, rows, totals, sum_deficit(values, rows, array))


def _smallest_for_all(detected: Any) -> float:
    """Smallest strength such that it and every larger one is found for every fault."""
    held = np.logical_and.accumulate(detected.all(axis=0))
    return STRENGTHS[int(held.sum()) - 1] if held.any() else math.inf


def _ratio_result(test: TestResult, sums: RatioSums, beta: float) -> RatioResult:
    hurdle = -math.log(check_open_unit("beta", beta))

    def entry(m: int, s: int, logs: Floats) -> FaultAtStrength:
        fault, strength = sums.names[m], STRENGTHS[s]
        return FaultAtStrength(fault=fault, strength=strength, log_evalue=float(logs[m, s]))

    m, s = divmod(int(sums.log_evalues.argmax()), len(STRENGTHS))
    refuted = []
    for i, logs in enumerate(sums.log_refutations):
        # Strengths fall: the log-likelihood is concave in the strength and 0 at 0, so that a
        # strength is refuted at least as strongly as any smaller one. A ball breaks that.
        held = int(np.logical_and.accumulate(logs >= hurdle).sum())
        if held:
            refuted.append(entry(i, held - 1, sums.log_refutations))
    gone = {one.fault for one in refuted}
    return RatioResult(
        test=test,
        best=entry(m, s, sums.log_evalues),
        refuted=tuple(refuted),
        not_refuted=tuple(fault for fault in sums.names if fault not in gone),
        beta=beta,
    )
