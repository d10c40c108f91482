"""Named faults: size at any time and exactly, planned power, refutations, diagnosis."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import (
    STRENGTHS,
    BetSums,
    LearnedRates,
    bet_power,
    bet_samples,
    bet_sums,
    bet_test,
    eprocess_growth,
    eprocess_min_detectable,
    eprocess_samples,
    ratio_gate,
    ratio_sums,
    ratio_test,
)

# Bets on tokens in contexts that never repeat: size, power, balls, bad input.


V = 12


def emitted(rng, rows):
    """A token of each row."""
    return (np.cumsum(rows, axis=1) < rng.random((len(rows), 1))).sum(axis=1).clip(0, V - 1)


def bets(rows, other, tokens, shares=(1.0, 0.3)):
    ratio = other / rows
    own = ratio[np.arange(len(tokens)), tokens]
    return bet_sums("other", own, ratio.min(axis=1), ratio.max(axis=1), shares=shares)


def tilted(rng, rows, by):
    other = rows * np.exp(by * rng.normal(size=rows.shape))
    return other / other.sum(axis=1, keepdims=True)


@pytest.mark.distribution
def test_a_right_law_is_called_wrong_no_more_often_than_alpha():
    rng = np.random.default_rng(31)

    def simulate(runs):
        found = []
        for _ in range(runs):
            rows = rng.dirichlet(np.full(V, 0.6), 60) * 0.99 + 0.01 / V
            other = tilted(rng, rows, 0.5)
            found.append(bet_test(bets(rows, other, emitted(rng, rows)), alpha=0.5).log_pvalue)
        return found

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_the_other_law_is_found_and_its_own_bet_wins_most():
    rng = np.random.default_rng(32)
    rows = rng.dirichlet(np.full(V, 0.6), 2000) * 0.99 + 0.01 / V
    one, two = tilted(rng, rows, 0.4), tilted(rng, rows, 0.4)
    tokens = emitted(rng, one)
    other = bet_sums(
        "two", (two / rows)[np.arange(2000), tokens], (two / rows).min(axis=1),
        (two / rows).max(axis=1), shares=(1.0,),
    )  # fmt: skip
    sums = bets(rows, one, tokens).beside(other)
    assert bet_test(sums, alpha=ALPHA).rejected
    assert sums.best() == "other, share 1"
    assert not bet_test(sums, alpha=ALPHA, ball=0.2).rejected  # so large a ball may hold it
    assert bet_test(sums, alpha=ALPHA, ball=0.001).rejected


@pytest.mark.distribution
def test_a_law_inside_the_ball_is_not_called_wrong():
    """The worst one: all that the ball has is moved to the token with the largest ratio."""
    rng = np.random.default_rng(33)
    rows = rng.dirichlet(np.full(V, 0.6), 20_000) * 0.9 + 0.1 / V
    other = tilted(rng, rows, 0.6)
    best = (other / rows).argmax(axis=1)
    moved = rows * 0.95
    moved[np.arange(len(rows)), best] += 0.05
    sums = bets(rows, other, emitted(rng, moved), shares=(0.05,))
    assert bet_test(sums, alpha=ALPHA).rejected
    assert not bet_test(sums, alpha=ALPHA, ball=0.05).rejected


@pytest.mark.distribution
def test_rows_that_are_off_may_be_those_of_the_widest_span():
    """One context in fifty is wholly another, and it is there that the bet can win: a TV of .02."""
    n, off = 10_000, np.arange(10_000) % 50 == 0
    high = np.where(off, 20.0, 1.0)
    ratios, low = np.where(off, 20.0, 1.0), np.where(off, 0.0, 1.0)
    sums = bet_sums("a", ratios, low, high, shares=(0.2,))
    assert bet_test(sums, alpha=ALPHA).rejected
    assert bet_test(sums, alpha=ALPHA, ball=0.002).rejected
    assert not bet_test(sums, alpha=ALPHA, ball=0.02).rejected
    mean_span = 0.2 * (high - low).mean()
    assert sums.log_wealth[0] - 0.02 * n * mean_span > 100.0  # a ball that is spread evenly


def test_sums_add_up_and_an_impossible_token_ends_a_bet():
    r, low, high = np.array([0.5, 2.0, 0.0]), np.zeros(3), np.full(3, 4.0)
    whole = bet_sums("a", r, low, high, shares=(1.0, 0.5))
    parts = [bet_sums("a", r[i], low[i], high[i], shares=(1.0, 0.5)) for i in ([0], [1, 2])]
    both = parts[0] + parts[1]
    assert (both.n, both.names) == (whole.n, whole.names)
    np.testing.assert_allclose(both.log_wealth, whole.log_wealth)
    np.testing.assert_allclose(both.widest, whole.widest)
    assert whole.log_wealth[0] == -math.inf
    assert whole.log_wealth[1] == pytest.approx(math.log(0.75 * 1.5 * 0.5))
    assert bet_test(parts[1], alpha=0.5).log_pvalue == 0.0
    with pytest.raises(ValueError, match="do not add up"):
        whole + bet_sums("b", r, low, high, shares=(1.0, 0.5))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (([], [], []), "expected \\(n,\\), n >= 1"),
        (([1.0], [0.0], [0.5]), "outside its limits"),
        (([-1.0], [-1.0], [2.0]), "negative"),
        (([math.nan], [0.0], [2.0]), "NaN"),
    ],
)
def test_what_is_no_ratio(values, says):
    with pytest.raises(ValueError, match=says):
        bet_sums("a", *values, shares=(0.5,))
    with pytest.raises(ValueError, match="shares are"):
        bet_sums("a", [1.0], [0.0], [2.0], shares=(1.5,))


def rates(rng, requests, bias=None):
    learned = LearnedRates()
    for _ in range(requests):
        rows = rng.dirichlet(np.full(V, 0.6), 40)
        law = rows if bias is None else rows * bias / (rows @ bias)[:, None]
        learned.add(rows, emitted(rng, law))
    return learned.sums


@pytest.mark.distribution
def test_rates_that_are_right_are_called_wrong_no_more_often_than_alpha():
    rng = np.random.default_rng(34)

    def simulate(runs):
        return [bet_test(rates(rng, 6), alpha=0.5).log_pvalue for _ in range(runs)]

    assert wrong_size(simulate, runs=1000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_a_bias_that_nobody_named_is_learned():
    rng = np.random.default_rng(35)
    bias = np.exp(0.3 * rng.normal(size=V))
    assert bet_test(rates(rng, 60, bias), alpha=ALPHA).rejected
    assert not bet_test(rates(rng, 60), alpha=ALPHA).rejected


def test_rates_need_one_vocabulary():
    learned = LearnedRates()
    learned.add(np.full((2, 4), 0.25), [0, 1])
    assert isinstance(learned.sums, BetSums)
    assert learned.sums.log_wealth == pytest.approx(0.0)  # nothing is known yet
    with pytest.raises(ValueError, match="V is 5, expected 4"):
        learned.add(np.full((2, 5), 0.2), [0, 1])


GAIN = {"mean": 0.02, "variance": 0.05, "alpha": 1e-6, "bets": 28, "price": 0.001}


def test_the_tokens_for_a_power_are_the_fewest_that_have_it():
    for power in (0.5, 0.9, 0.99):
        n = bet_samples(**GAIN, power=power)
        assert bet_power(n - 1, **GAIN) < power <= bet_power(n, **GAIN)


def test_a_bet_that_wins_no_more_than_the_ball_costs_tells_nothing():
    assert bet_samples(**GAIN | {"mean": 0.001}) is None
    assert bet_samples(**GAIN | {"mean": 0.0011}) is not None


def test_without_noise_the_power_is_0_or_1():
    given = GAIN | {"variance": 0.0}
    n = bet_samples(**given)
    assert [bet_power(n + off, **given) for off in (-1, 0)] == [0.0, 1.0]


ROWS = np.array([[0.5, 0.3, 0.2], [0.1, 0.25, 0.65]])
FAULTS = np.array([[[0.3, 0.3, 0.4], [0.2, 0.2, 0.6]], [[0.5, 0.2, 0.3], [0.25, 0.25, 0.5]]])
NAMES = ("rescaled", "shifted")
CELLS = 2 * len(STRENGTHS)


def mixture(m, strength):
    return (1 - strength) * ROWS + strength * FAULTS[m]


def sample(rng, rows, tokens):
    """Counts of ``tokens`` tokens, half of them in each context."""
    return np.stack([rng.multinomial(tokens // 2, row) for row in rows])


def paths(rng, rows, repeats, steps):
    """Log e-values (repeats, steps, M, 5) of streams whose context is the last token's parity."""
    logs = np.log(FAULTS / ROWS)
    cells = np.logaddexp(
        np.log1p(-np.minimum(STRENGTHS, 1 - 1e-15)), np.log(STRENGTHS) + logs[..., None]
    )
    cdf, state = np.cumsum(rows, axis=1)[:, :2], np.zeros(repeats, dtype=int)
    wealth = np.empty((repeats, steps, 2, len(STRENGTHS)))
    total = np.zeros((repeats, 2, len(STRENGTHS)))
    for step in range(steps):
        token = (rng.random(repeats)[:, None] >= cdf[state]).sum(axis=1)
        total = total + cells[:, state, token].transpose(1, 0, 2)
        wealth[:, step] = total
        state = token % 2
    return wealth


@pytest.mark.distribution
def test_size_at_any_time_on_adaptive_streams():
    """The gate is asked after every token of a walk; the control is a walk by a fault's rows."""
    rng, alpha, repeats = np.random.default_rng(81), 0.05, 2000

    def ever_rejected(rows):
        wealth = special.logsumexp(paths(rng, rows, repeats, 400), axis=(2, 3)) - math.log(CELLS)
        return int((wealth.max(axis=1) >= -math.log(alpha)).sum())

    allowed = stats.binom.isf(ALPHA, repeats, alpha)
    assert ever_rejected(ROWS) <= allowed
    assert ever_rejected(mixture(0, 0.3)) > allowed


def test_the_gate_is_the_mean_of_the_evalues():
    counts = sample(np.random.default_rng(82), mixture(1, 0.3), 3000)
    sums = ratio_sums(counts, ROWS, FAULTS, names=NAMES)
    result = ratio_gate(sums, alpha=1e-6)
    mean = math.log(np.exp(sums.log_evalues).mean())
    assert result.test.statistic == pytest.approx(mean)
    assert result.test.log_pvalue == pytest.approx(-mean)
    assert result.test.rejected
    assert result.best.fault == "shifted"
    assert result.best.log_evalue == sums.log_evalues.max()


def test_size_of_the_planned_end_by_enumeration():
    """All outcomes of 12 tokens after one prefix and 1 after another: at most alpha, exactly."""
    totals, alpha = (12, 1), 0.05
    size, wrong = 0.0, 0.0
    tables = [
        [np.array([a, b, n - a - b]) for a in range(n + 1) for b in range(n + 1 - a)]
        for n in totals
    ]
    for first, second in itertools.product(*tables):
        counts = np.stack([first, second])
        if ratio_test(counts, ROWS, FAULTS, names=NAMES, alpha=alpha).test.rejected:
            for law, which in ((ROWS, "size"), (mixture(0, 1.0), "wrong")):
                mass = math.prod(
                    stats.multinomial.pmf(c, n, r)
                    for c, n, r in zip(counts, totals, law, strict=True)
                )
                size, wrong = (size + mass, wrong) if which == "size" else (size, wrong + mass)
    assert alpha / 20 < size <= alpha
    # Negative control: the fault's own law is rejected more often than alpha.
    assert wrong > 2 * alpha


@pytest.mark.distribution
@pytest.mark.parametrize(("m", "strength"), [(0, 1.0), (1, 0.3), (0, 0.1)])
@pytest.mark.thorough
def test_power_at_the_planned_tokens(m, strength):
    """Both tests, at the tokens they plan; the control has a third of them."""
    rng, alpha, repeats = np.random.default_rng([83, m]), 1e-6, 100
    mixed = mixture(m, strength)
    divergence = float((mixed * np.log(mixed / ROWS)).sum() / 2)
    gate_n = 2 * math.ceil(eprocess_samples(divergence, alpha=alpha, weight=1 / CELLS) / 2)
    z = stats.norm.isf(alpha / CELLS) + stats.norm.isf(0.1)
    fixed_n = 2 * math.ceil(z * z / 2 / divergence / 2)
    assert fixed_n < gate_n

    def gate(counts):
        return ratio_gate(ratio_sums(counts, ROWS, FAULTS, names=NAMES), alpha=alpha)

    def fixed(counts):
        return ratio_test(counts, ROWS, FAULTS, names=NAMES, alpha=alpha)

    for test, n in ((gate, gate_n), (fixed, fixed_n)):
        found = sum(test(sample(rng, mixed, n)).test.rejected for _ in range(repeats))
        short = sum(test(sample(rng, mixed, n // 3)).test.rejected for _ in range(repeats))
        enough = stats.binom.isf(1 - ALPHA, repeats, 0.9)
        assert found >= enough > short


def test_min_detectable_is_the_strength_that_all_faults_reach():
    counts = sample(np.random.default_rng(84), ROWS, 40_000)
    sums = ratio_sums(counts, ROWS, FAULTS, names=NAMES)
    need = eprocess_growth(1e-6, weight=1 / CELLS)
    found = [d for d, g in zip(STRENGTHS, sums.growth.T, strict=True) if (g >= need).all()]
    assert 0.01 < ratio_gate(sums, alpha=1e-6).test.min_detectable == min(found) < 1.0
    few = ratio_sums(counts // 10**4, ROWS, FAULTS, names=NAMES)
    assert ratio_gate(few, alpha=1e-6).test.min_detectable == math.inf


@pytest.mark.distribution
@pytest.mark.parametrize("ball", [0.0, 0.002])
@pytest.mark.thorough
def test_a_fault_that_is_there_is_seldom_refuted(ball):
    """At its own strength, at rate beta; from healthy tokens the same strength is refuted."""
    rng, beta, repeats, n, strength = np.random.default_rng(85), 0.05, 1000, 4000, 0.3
    at = STRENGTHS.index(strength)

    def refuted(rows):
        return sum(
            ratio_sums(sample(rng, rows, n), ROWS, FAULTS, names=NAMES, ball=ball).log_refutations[
                0, at
            ]
            >= -math.log(beta)
            for _ in range(repeats)
        )

    allowed = stats.binom.isf(ALPHA, repeats, beta)
    assert refuted(mixture(0, strength)) <= allowed
    assert refuted(ROWS) > repeats / 2


def test_refuted_strengths_and_the_faults_that_stand():
    counts = np.rint(20_000 * ROWS).astype(int)
    result = ratio_gate(ratio_sums(counts, ROWS, FAULTS, names=NAMES), alpha=1e-6)
    sums = ratio_sums(counts, ROWS, FAULTS, names=NAMES)
    assert not result.test.rejected
    for entry in result.refuted:
        m, s = NAMES.index(entry.fault), STRENGTHS.index(entry.strength)
        assert (sums.log_refutations[m, : s + 1] >= math.log(1000)).all()
        assert sums.log_refutations[m, s + 1] < math.log(1000)
        assert entry.log_evalue == sums.log_refutations[m, s]
    assert [entry.fault for entry in result.refuted] == list(NAMES)
    assert result.not_refuted == ()
    few = ratio_gate(ratio_sums(counts // 10**4, ROWS, FAULTS, names=NAMES), alpha=1e-6)
    assert few.refuted == ()
    assert few.not_refuted == NAMES


def test_a_larger_strength_is_refuted_more_strongly():
    """The log-likelihood is concave in the strength: refuted at d means refuted above d."""
    rng = np.random.default_rng(86)
    for _ in range(200):
        rows, faults = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(4), (2, 3))
        counts = rng.integers(0, 30, (3, 4))
        logs = ratio_sums(counts, rows, faults, names=NAMES).log_refutations
        for strengths in logs:
            for larger, smaller in itertools.pairwise(strengths):
                assert smaller <= 0 or larger >= smaller


def test_deep_and_impossible_outcomes():
    huge = np.rint(10**7 * mixture(0, 1.0)).astype(int)
    for result in (
        ratio_gate(ratio_sums(huge, ROWS, FAULTS, names=NAMES), alpha=1e-6),
        ratio_test(huge, ROWS, FAULTS, names=NAMES, alpha=1e-6),
    ):
        assert -1e8 < result.test.log_pvalue < -1e5
        assert result.test.pvalue == 0.0
        assert (result.best.fault, result.best.strength) == ("rescaled", 1.0)
    rows, faults = np.array([[0.5, 0.5, 0.0]]), np.array([[[0.0, 0.5, 0.5]]])
    gone = ratio_test([[5, 5, 0]], rows, faults, names=("one",), alpha=0.01)
    assert not gone.test.rejected
    assert gone.refuted[0].log_evalue > 0
    broken = ratio_test([[5, 5, 1]], rows, faults, names=("one",), alpha=0.01)
    assert broken.test.log_pvalue == -math.inf
    assert broken.not_refuted == ("one",)


@pytest.mark.distribution
def test_a_ball_keeps_the_size_under_its_worst_law():
    """Tokens from a law within the ball, on the fault's side: the point null is rejected."""
    rng, ball, repeats, n = np.random.default_rng(87), 0.02, 60, 20_000
    worst = ROWS + ball * np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, -1.0]])
    rejected = {0.0: 0, ball: 0}
    for _ in range(repeats):
        counts = sample(rng, worst, n)
        for radius in rejected:
            test = ratio_test(counts, ROWS, FAULTS, names=NAMES, alpha=0.01, ball=radius).test
            gate = ratio_gate(
                ratio_sums(counts, ROWS, FAULTS, names=NAMES, ball=radius), alpha=0.01
            ).test
            rejected[radius] += test.rejected or gate.rejected
    allowed = stats.binom.isf(ALPHA, repeats, 0.02)
    assert rejected[ball] <= allowed < rejected[0.0]
    # The ball leaves power against what lies far outside it.
    found = ratio_test(sample(rng, FAULTS[0], n), ROWS, FAULTS, names=NAMES, alpha=1e-6, ball=ball)
    assert found.test.rejected


def test_planned_constants():
    """N(.9) <= (sqrt(b + z^2/2) + z/sqrt 2)^2 / KL, z = 1.2816."""
    b, z = math.log(1e6) + math.log(75), 1.2815515655446004
    growth = (math.sqrt(b + z * z / 2) + z / math.sqrt(2)) ** 2
    assert eprocess_growth(1e-6, weight=1 / 75) == pytest.approx(growth)
    assert eprocess_samples(1e-3, alpha=1e-6, weight=1 / 75) == math.ceil(growth / 1e-3)
    n = eprocess_samples(1e-3, alpha=1e-6, weight=1 / 75)
    assert eprocess_min_detectable(n, alpha=1e-6, weight=1 / 75) <= 1e-3
    assert eprocess_min_detectable(n - 1, alpha=1e-6, weight=1 / 75) > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: ratio_gate(s, alpha=0.0), "alpha is 0"),
        (lambda s: ratio_gate(s, alpha=0.1, beta=1.0), "beta is 1"),
        (lambda _: ratio_test(ROWS > 2, ROWS, FAULTS, names=NAMES, alpha=0.1), "dtype bool"),
        (
            lambda _: ratio_test(np.zeros((2, 3), int), ROWS, FAULTS, names=NAMES, alpha=0.1),
            "counts are all 0",
        ),
        (lambda _: eprocess_samples(0.0, alpha=0.1), "divergence is 0"),
        (lambda _: eprocess_samples(0.1, alpha=0.1, weight=0.0), "weight is 0"),
        (lambda _: eprocess_samples(0.1, alpha=0.1, power=1.0), "power is 1"),
        (lambda _: eprocess_min_detectable(0, alpha=0.1), "n is 0"),
    ],
)
def test_errors(call, message):
    sums = ratio_sums(np.ones((2, 3), int), ROWS, FAULTS, names=NAMES)
    with pytest.raises(ValueError, match=message):
        call(sums)
