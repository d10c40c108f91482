"""Tails of sums: never below the exact ones, close to them where counts are large, deep."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from support.calibration import wrong_size
from support.coin_tails import log_poisson_binomial_cdf, log_poisson_binomial_sf
from support.false_alarms import ALPHA

from simverify.stats import (
    INDICATOR_BINS,
    IndicatorSums,
    drift_test,
    indicator_bin,
    indicator_min_detectable,
    indicator_sums,
    indicator_sums_of_contexts,
    indicator_test,
    scores,
)
from simverify.stats.scores import log_sum_bound, log_sum_sf, sum_deficit

# Whether means drift as a cause was measured to make them: size, power, bad input.


DUE = np.array([0.01, 0.02, 0.03, 0.04])
VARIANCES, ERRORS = np.full(4, 1e-4), np.full(4, 1e-5)


def drifted(rng, mean, alpha=0.5):
    seen = mean + rng.normal(size=4) * np.sqrt(VARIANCES)
    tried = DUE + rng.normal(size=4) * np.sqrt(ERRORS)
    return drift_test(seen, VARIANCES, tried, ERRORS, n=1000, alpha=alpha)


@pytest.mark.distribution
@pytest.mark.parametrize("multiple", [0.0, 1.0, -2.0])
def test_the_cause_itself_is_denied_no_more_often_than_alpha(multiple):
    rng = np.random.default_rng(51)

    def simulate(runs):
        return [drifted(rng, multiple * DUE).log_pvalue for _ in range(runs)]

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
@pytest.mark.parametrize("mean", [[0.15, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1], 6 * DUE])
def test_another_cause_is_denied(mean):
    rng = np.random.default_rng(52)
    assert drifted(rng, np.asarray(mean), alpha=ALPHA).rejected


@pytest.mark.distribution
def test_what_is_detectable_is_detected():
    rng = np.random.default_rng(53)
    none = np.zeros(4)
    size = drift_test(none, VARIANCES, none, none, n=1000, alpha=1e-3).min_detectable
    found = [
        drift_test(
            size + rng.normal(size=4) * np.sqrt(VARIANCES), VARIANCES, none, none, n=1, alpha=1e-3
        ).rejected
        for _ in range(1000)
    ]
    assert 0.8 < np.mean(found) < 0.97


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"observed": [0.0]}, "expected \\(groups,\\)"),
        ({"variances": np.zeros(4)}, "not positive"),
        ({"errors": -ERRORS}, "negative"),
        ({"most": 0.0}, "most is 0"),
        ({"alpha": 1.0}, "alpha is 1"),
    ],
)
def test_bad_input(change, says):
    given = {"observed": DUE, "variances": VARIANCES, "expected": DUE, "errors": ERRORS,
             "n": 10, "alpha": 0.01} | change  # fmt: skip
    with pytest.raises(ValueError, match=says):
        drift_test(**given)


# Bits with known probabilities: exact tails, power, what is excluded, balls.


def with_hits(probabilities, hits):
    """Sums of bits with these probabilities of which ``hits`` are 1."""
    bits = np.zeros(len(probabilities), dtype=int)
    bits[:hits] = 1
    return indicator_sums(bits, probabilities)


def exact_log_pvalue(probabilities, hits):
    ones = np.ones(len(probabilities))
    upper = log_poisson_binomial_sf(hits - 1, probabilities, ones)
    lower = log_poisson_binomial_cdf(hits, probabilities, ones)
    return min(0.0, math.log(2) + min(upper, lower))


@pytest.mark.parametrize("shape", [(0.5, 0.5), (1, 200), (200, 1), (0.02, 0.02), (30, 30)])
def test_the_histogram_never_lowers_the_pvalue_and_barely_raises_it(shape):
    p = np.clip(np.random.default_rng(72).beta(*shape, size=3000), 1e-9, 1 - 1e-9)
    deviation = math.sqrt((p * (1 - p)).sum())
    for z in (-30, -6, -3, -1, 1, 3, 6, 30):
        hits = min(max(round(p.sum() + z * deviation), 0), 3000)
        exact = exact_log_pvalue(p, hits)
        got = indicator_test(with_hits(p, hits), alpha=0.01).log_pvalue
        assert exact - 1e-9 <= got
        if abs(hits - p.sum()) > 2:
            assert got <= exact * (1 - 2e-3) + 1e-3


def test_rare_bits_close_to_their_mean_are_rounded_upwards():
    p = np.random.default_rng(73).random(200) * 2e-4
    for hits in (1, 2):
        exact = exact_log_pvalue(p, hits)
        got = indicator_test(with_hits(p, hits), alpha=0.01).log_pvalue
        assert exact - 1e-12 <= got <= exact + 0.1


def test_equal_probabilities_are_binomial():
    n, p = 1000, 0.3
    for hits in (200, 290, 340, 400):
        b = stats.binom
        expected = min(1.0, 2 * min(b.sf(hits - 1, n, p), b.cdf(hits, n, p)))
        assert indicator_test(with_hits(np.full(n, p), hits), alpha=0.01).pvalue == pytest.approx(
            expected, rel=0.05
        )


def test_what_is_excluded_fails_at_once():
    """White box: a = 1 yet rejected, or a = 0 yet accepted."""
    chance = np.array([1.0, 1.0, 0.5, 0.0])
    healthy = indicator_sums([1, 1, 0, 0], chance)
    assert healthy.impossible == 0
    assert indicator_test(healthy, alpha=0.01).pvalue == 1.0
    for bits in ([1, 0, 0, 0], [1, 1, 1, 1]):
        sums = indicator_sums(bits, chance)
        assert sums.impossible == 1
        assert indicator_test(sums, alpha=1e-300).log_pvalue == -math.inf
        # Within a ball such a bit is only rare.
        assert indicator_test(sums, alpha=0.01, ball=0.1).log_pvalue > -5
    assert (healthy + sums).impossible == 1


def test_sums_add_and_bins_keep_the_mean():
    rng = np.random.default_rng(74)
    p = np.concatenate([rng.beta(0.3, 0.3, 500), [0.0, 1.0, 0.5, 1e-300, 1 - 1e-16]])
    bits = (rng.random(505) < p).astype(int)
    whole = indicator_sums(bits, p)
    parts = indicator_sums(bits[:200], p[:200]) + indicator_sums(bits[200:], p[200:])
    assert (parts.n, parts.hits) == (whole.n, whole.hits)
    np.testing.assert_array_equal(parts.bits, whole.bits)
    assert whole.mean == pytest.approx(p.sum(), rel=1e-12)
    assert parts.mean == pytest.approx(whole.mean, rel=1e-12)
    assert whole.variance == pytest.approx((p * (1 - p)).sum(), rel=1e-3)
    side, index = indicator_bin([0.0, 1.0, 0.5, 0.25, 0.75, 1e-300])
    assert side.tolist() == [0, 1, 0, 0, 1, 0]
    assert index.tolist() == [INDICATOR_BINS, INDICATOR_BINS, 0, 16, 16, INDICATOR_BINS - 1]


def test_contexts_are_streamed_bits():
    rng = np.random.default_rng(75)
    rows = rng.dirichlet(np.ones(6), 4)
    members = rng.random((4, 6)) < 0.5
    members[3] = True
    counts = rng.integers(0, 9, (4, 6))
    got = indicator_sums_of_contexts(counts, rows, members)
    chance = np.where(members.all(axis=1), 1.0, (rows * members).sum(axis=1))
    context, token = np.repeat(np.indices((4, 6)).reshape(2, -1), counts.ravel(), axis=1)
    streamed = indicator_sums(members[context, token].astype(int), chance[context])
    assert (got.n, got.hits, got.impossible) == (streamed.n, streamed.hits, 0)
    np.testing.assert_array_equal(got.bits, streamed.bits)
    np.testing.assert_allclose(got.rare, streamed.rare)


@pytest.mark.distribution
@pytest.mark.parametrize("sign", [1, -1])
def test_power_at_the_planned_shift(sign):
    rng = np.random.default_rng(76)
    p = rng.beta(2, 3, 5000)
    alpha = 1e-6
    shift = indicator_min_detectable(with_hits(p, 0), alpha=alpha)
    other = np.clip(p + sign * shift, 0, 1)
    other += (p.mean() + sign * shift - other.mean()) * (other > 0) * (other < 1)
    found = sum(
        indicator_test(
            indicator_sums((rng.random(5000) < other).astype(int), p), alpha=alpha
        ).rejected
        for _ in range(200)
    )
    assert stats.binom.cdf(found, 200, 0.9) > ALPHA / 2
    assert found < 200


def test_planning():
    sums = with_hits(np.random.default_rng(77).beta(2, 2, 20_000), 0)
    for ball in (0.0, 0.005):
        z = stats.norm.isf(5e-7) + stats.norm.isf(0.1)
        expected = z * np.sqrt(sums.variance) / sums.n
        found = indicator_min_detectable(sums, alpha=1e-6, ball=ball)
        assert found - ball == pytest.approx(expected, rel=0.025)
    # No shift of a bit that is always 0 is possible but upwards.
    assert indicator_min_detectable(with_hits(np.full(5, 0.5), 0), alpha=1e-6) == math.inf


def test_a_ball_swallows_its_own_shift():
    n = 100_000
    p, off = np.full(n, 0.3), np.full(n, 0.31)
    drawn = indicator_sums((np.random.default_rng(78).random(n) < off).astype(int), p)
    assert indicator_test(drawn, alpha=1e-6).rejected
    inside = indicator_test(drawn, alpha=1e-6, ball=0.01)
    assert inside.log_pvalue > -5
    assert "within TV 0.01" in inside.method
    assert indicator_test(drawn, alpha=1e-6, ball=0.001).rejected
    assert inside.min_detectable == pytest.approx(
        0.01 + indicator_test(drawn, alpha=1e-6).min_detectable, rel=0.02
    )


def test_far_tail():
    result = indicator_test(with_hits(np.full(10_000, 0.5), 0), alpha=1e-6)
    assert result.log_pvalue == pytest.approx(-9999 * math.log(2), rel=1e-9)
    assert isinstance(with_hits([0.5], 0), IndicatorSums)


@pytest.mark.parametrize("radius", [0.0, 0.01])
@pytest.mark.parametrize("shape", [(0.5, 0.5), (1, 200), (200, 1), (30, 30)])
def test_a_critical_number_is_the_fewest_hits_that_are_too_many(shape, radius):
    p = np.random.default_rng(75).beta(*shape, size=400)
    sums = indicator_sums(np.zeros(400, dtype=int), p)
    for log_tail in (-1.0, -10.0, -300.0):
        found = scores._critical_hits(
            sums.mean, sums.bits, sums.rare, log_tail, radius, likely=sums.mean, steep=0.3
        )
        tail = [
            scores._log_upper_tail(hits, sums.bits, sums.rare, radius)
            for hits in range(math.floor(sums.mean) + 1, 401)
        ]
        due = next((k for k, log_p in enumerate(tail) if log_p < log_tail), len(tail))
        assert found == math.floor(sums.mean) + 1 + due


def tail(values, rows, totals, threshold):
    """Log of P(sum >= threshold), for values that are finite where their rows are positive."""
    most = np.where(rows > 0, values, -math.inf).max(axis=1)
    return log_sum_sf(values, rows, totals, float(totals @ most) - threshold)


def exact_law(values, rows, totals):
    """Sums and their probabilities over all outcomes, largest first, with cumulated mass."""
    sums, masses = np.zeros(1), np.ones(1)
    for value, row, total in zip(values, rows, totals, strict=True):
        heads = itertools.product(range(total + 1), repeat=len(row) - 1)
        counts = np.array([(*h, total - sum(h)) for h in heads if sum(h) <= total])
        mass = stats.multinomial.pmf(counts, total, row)
        sums = (sums[:, None] + counts @ value).ravel()
        masses = (masses[:, None] * mass).ravel()
    order = np.argsort(-sums)
    return sums[order], np.cumsum(masses[order])


def instances(repeats):
    """Log-likelihood ratios of one or two rows of two or three tokens."""
    rng = np.random.default_rng(71)
    for _ in range(repeats):
        contexts, vocab = rng.integers(1, 3), rng.integers(2, 4)
        rows = rng.dirichlet(np.full(vocab, rng.choice([0.3, 1.0, 3.0])), contexts)
        faults = rng.dirichlet(np.ones(vocab), contexts)
        strength = rng.choice([1.0, 0.3, 0.03])
        most = 40 if contexts * vocab < 6 else 12
        totals = rng.integers(3, most, contexts)
        yield np.log(1 - strength + strength * faults / rows), rows, totals


def test_never_below_the_exact_tail():
    """Lattices, tiny probabilities and all: every threshold with a tail below 1/10."""
    checked, without_lattice = 0, 0
    for values, rows, totals in instances(300):
        sums, tails = exact_law(values, rows, totals)
        for level in (1e-2, 1e-4, 1e-6, 1e-9):
            at = min(int(np.searchsorted(tails, level)), sums.size - 1)
            # All outcomes that rounding puts a hair apart belong to the event.
            last = int(np.searchsorted(-sums, -sums[at] + 1e-9 * abs(sums[at]), side="right"))
            if tails[last - 1] > 0.1:
                continue
            bound = math.exp(tail(values, rows, totals, float(sums[at])))
            assert bound >= tails[last - 1] * (1 - 1e-9)
            checked += 1
            without_lattice += bound * 0.8 < tails[last - 1]
    assert checked > 900
    # Negative control: a formula a fifth lower is below the exact tail many times.
    assert without_lattice > 50


@pytest.mark.parametrize("log_tail", [-20, -690, -6900])
def test_binomial_tails_at_any_depth(log_tail):
    """A row of two tokens is a binomial: mpmath's sum, at 1e-9, 1e-300 and 1e-3000."""
    n, p, value = 40_000, 0.3, 1.0
    counts = np.arange(int(n * p), n + 1)
    k = int(counts[np.searchsorted(-stats.binom.logsf(counts - 1, n, p), min(-log_tail, 600))])
    if log_tail < -600:
        k = int(n * (p + math.sqrt(-log_tail * p * (1 - p) * 2 / n)))
    with mpmath.workdps(30):
        first = mpmath.binomial(n, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (n - k)
        total, term = mpmath.mpf(0), first
        for j in range(k, min(n, k + 4000)):
            total += term
            term *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
        exact = float(mpmath.log(total))
    got = tail(np.array([[0.0, value]]), np.array([[1 - p, p]]), np.array([n]), k * value)
    assert math.isfinite(got)
    assert got == pytest.approx(exact, abs=2e-3)


def test_close_to_a_smooth_law():
    """A large alphabet in many contexts: normal to a percent, and what a lattice could add."""
    rng = np.random.default_rng(72)
    rows = rng.dirichlet(np.full(64, 5.0), 64)
    values, totals = 1e-2 * rng.standard_normal((64, 64)), np.full(64, 10**4)
    means = (rows * values).sum(axis=1)
    variance = float(totals @ ((rows * values**2).sum(axis=1) - means**2))
    deviation = math.sqrt(variance)
    widest = float(np.ptp(values, axis=1).max())
    for z in (2.0, 5.0):
        got = tail(values, rows, totals, float(totals @ means) + z * deviation)
        lattice = z * widest / (2 * deviation)
        assert -0.01 < got - stats.norm.logsf(z) < 0.01 + lattice < 0.04


def test_edges():
    rows, totals = np.array([[0.25, 0.25, 0.5]]), np.array([10])
    values = np.array([[1.0, 1.0, 0.0]])
    assert log_sum_sf(values, rows, totals, 0.0) == pytest.approx(10 * math.log(0.5))
    assert log_sum_sf(values, rows, totals, -0.1) == -math.inf
    assert log_sum_sf(values, rows, totals, 5.0) == 0.0
    # A token that makes the sum -inf leaves the rest of the mass.
    cut = np.array([[-math.inf, 1.0, 0.0]])
    assert log_sum_sf(cut, rows, totals, 10.0) == pytest.approx(10 * math.log(0.75))
    assert log_sum_sf(cut, rows, totals, 0.0) == pytest.approx(10 * math.log(0.25))
    # No token of the row leaves the sum finite.
    never = np.array([[-math.inf, -math.inf, -math.inf]])
    assert log_sum_sf(never, rows, totals, 5.0) == -math.inf
    # Values that never differ: no deviation is possible.
    assert log_sum_sf(np.ones((1, 3)), rows, totals, 0.0) == 0.0


def test_a_certain_sum_has_tail_one_whatever_its_rounding():
    """One-hot rows: every token lowers the ratio by a known amount, and that is no surprise."""
    rng = np.random.default_rng(76)
    rows = np.tile([1.0, 0.0], (4, 1))
    for _ in range(200):
        totals, lows = rng.integers(1, 400, 4), np.log(rng.uniform(0.1, 1.0, 4))
        values = np.column_stack([lows, np.full(4, np.log(2.0))])
        seen = np.column_stack([totals, np.zeros(4, dtype=int)])
        assert sum_deficit(values, rows, seen) == 0.0
        assert log_sum_sf(values, rows, totals, 0.0) == 0.0


@pytest.mark.parametrize("scale", [1.0, 1e-8, 2.0**-52, 1e-300])
def test_tails_do_not_depend_on_the_scale_of_the_values(scale):
    """Values that differ by ulps are a coarse lattice, and have the tails of one."""
    rows, totals = np.array([[0.2, 0.3, 0.5]]), np.array([12])
    steps = np.array([[0.0, 1.0, 3.0]])
    level = 1.0 if scale > 1e-20 else 0.0
    values = level + scale * steps
    sums, tails = exact_law(steps, rows, totals)
    deficits = sum_deficit(values, rows, np.array([[4, 4, 4]]))
    assert deficits == pytest.approx(scale * (36 - 16), rel=1e-6)
    for at in range(0, sums.size, 7):
        lacked = scale * (36.0 - sums[at])
        last = int(np.searchsorted(-sums, -sums[at] + 1e-9, side="right"))
        got = log_sum_sf(values, rows, totals, lacked)
        assert got == pytest.approx(log_sum_sf(steps, rows, totals, 36.0 - sums[at]), abs=1e-5)
        assert got >= math.log(tails[last - 1]) - 1e-9 or tails[last - 1] > 0.1


def test_values_equal_but_for_an_ulp_beside_one_far_below():
    """What tokens of the constant part add by rounding decides nothing about the rest."""
    rng = np.random.default_rng(77)
    rows = np.array([[0.5, 0.3, 0.15, 0.05]])
    for _ in range(100):
        base = rng.uniform(-1.0, 1.0)
        values = np.array([[base, np.nextafter(base, 2), np.nextafter(base, -2), base - 2.0]])
        counts = rng.multinomial(200, rows[0])[None]
        found = log_sum_sf(values, rows, np.array([200]), sum_deficit(values, rows, counts))
        low = stats.binom.logcdf(counts[0, 3], 200, 0.05)
        assert found >= low - 1e-9 or low > math.log(0.1)


def test_ball_bound_covers_the_worst_row_within_it():
    """Moving mass from the least to the greatest value is the worst that a ball allows."""
    row, ball, n = np.array([[0.5, 0.3, 0.2]]), 0.02, 2000
    values, totals = np.array([[-0.2, 0.1, 0.4]]), np.array([n])
    worst = row + np.array([[-ball, 0.0, ball]])
    for z in (2.0, 4.0, 6.0):
        mean = float((worst @ values.T)[0, 0])
        variance = float((worst @ values.T**2)[0, 0]) - mean**2
        threshold = n * mean + z * math.sqrt(n * variance)
        bound = log_sum_bound(values, row, totals, threshold, ball=ball)
        assert bound >= tail(values, worst, totals, threshold)
        # Without the ball the bound would be false.
        assert tail(values, row, totals, threshold) < stats.norm.logsf(z)


def test_ball_reaches_tokens_of_probability_zero():
    """Mass may move to a token that the declared row excludes."""
    row, ball, n = np.array([[0.6, 0.4, 0.0]]), 0.02, 2000
    values, totals = np.array([[-0.1, 0.1, 2.0]]), np.array([n])
    worst = np.array([[0.58, 0.4, 0.02]])
    threshold = n * float((worst @ values.T)[0, 0])
    assert log_sum_bound(values, row, totals, threshold, ball=ball) > -1.0
    assert log_sum_bound(values, row, totals, threshold, ball=ball / 4) < -5.0


def test_ball_bound_of_a_row_whose_tokens_are_all_excluded():
    """Only the mass that the ball lets move can make the sum finite."""
    row, values = np.array([[1.0, 0.0]]), np.array([[-math.inf, 2.0]])
    bound = log_sum_bound(values, row, np.array([10]), 20.0, ball=0.01)
    assert bound == pytest.approx(10 * math.log(0.01), rel=1e-6)
