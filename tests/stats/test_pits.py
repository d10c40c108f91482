"""Correlation and tables of pairs of PITs: far tails, plans, balls."""

import math

import numpy as np
import pytest
from scipy import special, stats
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import (
    PIT_BINS,
    PairSums,
    bet_test,
    correlation_min_detectable,
    correlation_samples,
    duplicates_min_detectable,
    duplicates_test,
    g2_test,
    ks_min_detectable,
    ks_samples,
    order_key,
    pair_sums,
    pit_bounds,
    pit_correlation,
    pit_ks,
    pit_table,
    pit_table_g2,
    stream_sums,
)
from simverify.stats._checks import smallest_n
from simverify.stats.pits import MIN_PAIRS


def characteristic_of_product(waves):
    """E exp(i w a b) for a, b uniform on [-1, 1] is Si(w) / w."""
    return special.sici(waves)[0] / waves


def test_far_tail_of_disjoint_pairs_from_the_exact_law():
    """The normal tail is within a tenth of the exact one at MIN_PAIRS, down to 1e-9."""
    n = MIN_PAIRS
    deviation = math.sqrt(n)
    span = 60 * deviation
    harmonics = np.arange(1, 200)
    waves = 2 * math.pi / span * harmonics
    # 12 (u - 1/2)(v - 1/2) = 3 a b for a, b uniform on [-1, 1].
    law = np.exp(n * np.log(characteristic_of_product(3.0 * waves)))
    for z in (2.0, 4.75, 5.5, 6.0):
        ends = np.exp(-1j * waves * z * deviation), np.exp(-1j * waves * (z * deviation + span / 2))
        tail = 0.5 + ((ends[0] - ends[1]) / (1j * math.pi * harmonics) * law).real.sum()
        assert stats.norm.sf(z) == pytest.approx(tail, rel=0.02)
    # A heavier law, that of equal pairs, would not pass.
    assert stats.norm.sf(6.0 / 1.1) > 1.1 * tail


def test_sums_add_and_the_statistic_is_the_correlation():
    u, v = np.random.default_rng(121).random((2, 6000))
    whole = pair_sums(u, v)
    parts = pair_sums(u[:100], v[:100]) + pair_sums(u[100:], v[100:])
    assert parts.n == whole.n
    assert parts.products == pytest.approx(whole.products)
    assert parts.spreads == pytest.approx(whole.spreads)
    expected = np.corrcoef(u, v)[0, 1]
    assert pit_correlation(whole, alpha=0.01).statistic == pytest.approx(expected, abs=2e-3)


def test_a_ball_swallows_what_it_may_hold():
    """The worst law in a ball moves mass from v = 0 to 1, or back, by the sign of u - 1/2."""
    rng = np.random.default_rng(122)
    u, v = rng.random((2, 200_000))
    moved = rng.random(v.size) < 0.02
    v = np.where(moved, np.where(u > 0.5, 1 - v / 50, v / 50), v)
    sums = pair_sums(u, v)
    assert pit_correlation(sums, alpha=1e-6).rejected
    assert pit_correlation(sums, alpha=1e-6, ball=0.02).log_pvalue > -3
    assert pit_correlation(sums, alpha=1e-6, ball=0.002).rejected


def test_correlation_plans():
    for ball in (0.0, 0.01):
        n = correlation_samples(0.1, alpha=1e-6, ball=ball)
        assert correlation_min_detectable(n, alpha=1e-6, ball=ball) <= 0.1
        if n > MIN_PAIRS:
            assert correlation_min_detectable(n - 1, alpha=1e-6, ball=ball) > 0.1
    z = stats.norm.isf(5e-7 / 1.1) + stats.norm.isf(0.1)
    assert correlation_samples(0.01, alpha=1e-6) == pytest.approx((z / 0.01) ** 2, rel=1e-3)
    assert correlation_samples(0.9, alpha=0.01) == MIN_PAIRS


def test_table_of_pits():
    cells = (np.arange(8) + 0.5) / 8
    table = pit_table(np.repeat(cells, 8), np.tile(cells, 8))
    np.testing.assert_array_equal(table, np.ones((8, 8)))
    assert pit_table([1.0, 0.0], [0.0, 0.126])[[7, 0], [0, 1]].tolist() == [1, 1]
    g2 = pit_table_g2(20 * table)
    assert (g2.df, g2.n, g2.unresolved) == (63, 1280, 0.0)
    assert g2.statistic == pytest.approx(0.0)
    # Equal PITs one time in five: no correlation of cells is needed to see it.
    shared = 16 * table + 32 * np.eye(8, dtype=int)
    assert g2_test(pit_table_g2(shared), alpha=1e-6).rejected
    with pytest.raises(ValueError, match="640 or more"):
        pit_table_g2(9 * table)
    with pytest.raises(ValueError, match="shape"):
        pit_table_g2(table[:4])


def test_duplicates_plans_and_balls():
    chance = 0.34

    def pairs(ball):
        def enough(n):
            return duplicates_min_detectable(n, chance, alpha=1e-6, ball=ball) <= 0.05

        return smallest_n(enough, "excess 0.05")

    n = pairs(ball=0.0)
    assert duplicates_min_detectable(int(0.97 * n), chance, alpha=1e-6) > 0.05
    assert pairs(ball=0.01) > 2 * n
    count = int(n * (chance + 0.06))
    assert duplicates_test(count, n, chance, alpha=1e-6).rejected
    assert not duplicates_test(count, n, chance, alpha=1e-6, ball=0.03).rejected


def lag_tail(z, *, runs, steps, seed):
    """P(S > z sqrt(steps)) and its standard error, S = sum of 12 (u - 1/2)(v - 1/2) at lag 1.

    Importance sampling: each PIT is drawn tilted by exp(theta 12 (u - 1/2)(v - 1/2)), u the
    one before; the weight undoes it.
    """
    rng = np.random.default_rng(seed)
    theta = z / math.sqrt(steps)
    u = rng.random(runs) - 0.5
    total, log_mass = np.zeros(runs), np.zeros(runs)
    for _ in range(steps):
        rate = 12.0 * theta * u
        rate = np.where(np.abs(rate) < 1e-9, 1e-9, rate)
        span = np.sinh(rate / 2.0)
        v = np.log(np.exp(-rate / 2.0) + 2.0 * rng.random(runs) * span) / rate
        total += 12.0 * u * v
        log_mass += np.log(span / (rate / 2.0))
        u = v
    weight = np.where(total > z * math.sqrt(steps), np.exp(log_mass - theta * total), 0.0)
    return weight.mean(), weight.std() / math.sqrt(runs)


@pytest.mark.distribution
@pytest.mark.parametrize("z", [2.5, 4.9, 6.0])
def test_far_tail_of_a_lag_by_importance_sampling(z):
    """Overlapping pairs: never above the test's tail at MIN_PAIRS, and close, down to 1e-9."""
    tail, error = lag_tail(z, runs=6000, steps=MIN_PAIRS, seed=123)
    margin = stats.norm.isf(ALPHA / 2) * error
    at_z = PairSums(n=MIN_PAIRS, products=z * math.sqrt(MIN_PAIRS) / 12, spreads=0.0)
    claimed = pit_correlation(at_z, alpha=0.01).pvalue / 2
    assert tail - margin <= claimed
    # Negative controls: neither that of a law a tenth wider, nor of one a tenth narrower.
    assert claimed < stats.norm.sf(z / 1.1) - margin
    assert tail - margin > stats.norm.sf(1.1 * z)


# KS on binned PITs: conservative, and able to see what it promises.


def histogram(values, bins=PIT_BINS):
    return np.bincount((np.asarray(values) * bins).astype(int), minlength=bins)


def randomised_pits(rng, tokens, row):
    below = np.concatenate([[0.0], np.cumsum(row)[:-1]])
    return np.minimum(below[tokens] + rng.random(tokens.size) * row[tokens], np.nextafter(1, 0))


@pytest.mark.distribution
def test_size_and_negative_control():
    """Tokens of the declared law pass at the nominal rate; those of another do not."""
    rng = np.random.default_rng(21)
    row = np.array([0.05, 0.5, 0.15, 0.3])
    rejections = [0, 0]
    for _ in range(1000):
        tokens = rng.choice(4, 300, p=row)
        result = pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=0.01)
        rejections[0] += result.rejected
        # Without randomisation the PITs of a discrete law are not uniform.
        rejections[1] += pit_ks(
            histogram(np.cumsum(row)[tokens] - 0.5 * row[tokens]), alpha=0.01
        ).rejected
    assert stats.binomtest(rejections[0], 1000, 0.01).pvalue > ALPHA
    assert rejections[1] == 1000


@pytest.mark.distribution
def test_wrong_row_is_rejected():
    rng = np.random.default_rng(22)
    row, other = np.array([0.4, 0.6]), np.array([0.45, 0.55])
    tokens = rng.choice(2, 40_000, p=other)
    assert pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=1e-6).rejected
    assert not pit_ks(histogram(randomised_pits(rng, tokens, other)), alpha=ALPHA).rejected


@pytest.mark.distribution
@pytest.mark.parametrize("n", [400, 20_000])
def test_power_at_the_planned_deviation(n):
    """Two tokens of probability 1/2, shifted by the promised D, which is their TV."""
    rng = np.random.default_rng(23)
    alpha, row = 1e-6, np.array([0.5, 0.5])
    shift = ks_min_detectable(n, alpha=alpha)
    found = 0
    for _ in range(400):
        tokens = rng.choice(2, n, p=[0.5 + shift, 0.5 - shift])
        found += pit_ks(histogram(randomised_pits(rng, tokens, row)), alpha=alpha).rejected
    assert stats.binom.cdf(found, 400, 0.9) > ALPHA


@pytest.mark.parametrize("bins", [2, 16, PIT_BINS])
def test_binning_never_lowers_the_pvalue(bins):
    rng = np.random.default_rng(24)
    for n in (1, 5, 100, 3000):
        sample = rng.random(n) ** 1.1
        exact = stats.kstest(sample, "uniform")
        result = pit_ks(histogram(sample, bins), alpha=0.05)
        assert exact.statistic - 1 / bins <= result.statistic <= exact.statistic
        # Twice the one-sided tail is above the exact one.
        assert result.pvalue >= exact.pvalue * (1 - 1e-9)


def test_everything_in_one_bin():
    bins = np.zeros(PIT_BINS, dtype=int)
    bins[-1] = 10**6
    result = pit_ks(bins, alpha=1e-6)
    assert result.rejected
    assert result.statistic == 1 - 1 / PIT_BINS
    assert math.isfinite(result.log_pvalue)
    assert result.log_pvalue < -1e6


def test_more_tokens_than_the_exact_law_takes():
    bins = np.full(PIT_BINS, 1000)
    assert pit_ks(bins, alpha=0.5).log_pvalue == 0.0
    bins[:100] += 1000
    result = pit_ks(bins, alpha=1e-6)
    assert result.rejected
    assert "limit law" in result.method
    assert result.min_detectable == pytest.approx(3.335 / math.sqrt(result.n) + 2**-16, rel=0.01)


def test_planning():
    # docs/explanation/statistics.md: 3.33 / sqrt(N) at alpha 1e-6, 3.60 at a twentieth of it.
    for alpha, constant in ((1e-6, 3.33), (5e-8, 3.60)):
        got = ks_min_detectable(10**6, alpha=alpha, bins=2**60)
        assert got * 1000 == pytest.approx(constant, abs=0.006)
    for distance in (0.5, 0.01, 3e-4):
        n = ks_samples(distance, alpha=1e-6)
        assert ks_min_detectable(n, alpha=1e-6) <= distance
        assert ks_min_detectable(n - 1, alpha=1e-6) > distance
    assert ks_min_detectable(5, alpha=1e-6) == math.inf


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ([0, 0, 0], "empty"),
        ([5], "1 bins"),
        ([3, -1], "no negative"),
        ([0.5, math.nan], "expected integers"),
        ([[1, 2]], "expected 1 axes"),
    ],
)
def test_histogram_errors(bins, message):
    with pytest.raises(ValueError, match=message):
        pit_ks(np.array(bins), alpha=0.01)


def test_errors():
    with pytest.raises(ValueError, match="alpha is 1"):
        pit_ks(np.array([1, 2]), alpha=1)
    with pytest.raises(ValueError, match="more than one bin"):
        ks_samples(2**-16, alpha=0.01)
    with pytest.raises(ValueError, match="n is 0"):
        ks_min_detectable(0, alpha=0.01)


# PITs of plain rows against a loop over tokens, in every order; and what each order sees.


ORDERS = ("ratio", "index", "descending")


def plain_bounds(row, draft, token, order):
    """F(x-) and F(x-) + P(x) by sorting, token by token."""
    keys = {
        "ratio": [b / a if a else math.inf for a, b in zip(row, draft, strict=True)],
        "index": list(range(len(row))),
        "descending": [-a for a in row],
    }[order]
    below = 0.0
    for x in sorted(range(len(row)), key=lambda x: (keys[x], x)):
        if x == token:
            return below, below + row[x]
        below += row[x]
    raise AssertionError


@pytest.mark.parametrize("order", ORDERS)
def test_bounds_against_a_loop(order):
    rng = np.random.default_rng(111)
    # Quarters: ties in every order, zeros on either side.
    rows = rng.multinomial(4, np.full(6, 1 / 6), 300) / 4.0
    drafts = rng.multinomial(4, np.full(6, 1 / 6), 300) / 4.0
    tokens = rng.integers(0, 6, 300)
    below, above = pit_bounds(rows, order_key(order, rows, drafts), tokens)
    expected = [plain_bounds(*parts, order) for parts in zip(rows, drafts, tokens, strict=True)]
    np.testing.assert_allclose(np.stack([below, above], axis=1), expected, atol=1e-12)


def draw(rng, rows):
    """One token of each row."""
    cdf = np.cumsum(rows, axis=1)
    return (rng.random((len(rows), 1)) * cdf[:, -1:] > cdf).sum(axis=1)


def ks(rng, rows, drafts, tokens, order, **options):
    below, above = pit_bounds(rows, order_key(order, rows, drafts), tokens)
    u = below + rng.random(len(tokens)) * (above - below)
    bins = np.minimum((u * PIT_BINS).astype(int), PIT_BINS - 1)
    return pit_ks(np.bincount(bins, minlength=PIT_BINS), **options)


@pytest.mark.distribution
def test_contexts_that_never_repeat_pass_in_every_order_and_a_leak_shows_in_q_over_p():
    """A tenth of the tokens drawn from the draft: the ratio order alone lines it up."""
    rng = np.random.default_rng(112)
    rows = rng.dirichlet(np.full(12, 0.4), 20_000)
    drafts = 0.5 * rows + 0.5 * rng.dirichlet(np.full(12, 0.4), 20_000)
    healthy = draw(rng, rows)
    for order in ORDERS:
        assert not ks(rng, rows, drafts, healthy, order, alpha=ALPHA / 3).rejected
    leaky = draw(rng, 0.9 * rows + 0.1 * drafts)
    assert ks(rng, rows, drafts, leaky, "ratio", alpha=1e-6).rejected
    assert not ks(rng, rows, drafts, leaky, "index", alpha=1e-6).rejected


def test_ks_in_a_ball():
    bins = np.full(PIT_BINS, 8)
    bins[:100] += 200
    plain, inside = pit_ks(bins, alpha=1e-6), pit_ks(bins, alpha=1e-6, ball=0.05)
    assert plain.rejected
    assert inside.log_pvalue == 0.0
    assert inside.statistic == plain.statistic
    near = pit_ks(bins, alpha=1e-6, ball=plain.statistic / 2)
    assert near.log_pvalue == pytest.approx(plain.log_pvalue / 4, rel=0.02)
    assert "within TV 0.05" in inside.method
    assert "within" not in plain.method
    assert inside.min_detectable == pytest.approx(plain.min_detectable + 0.05)
    n = ks_samples(0.02, alpha=1e-6, ball=0.01)
    assert ks_min_detectable(n, alpha=1e-6, ball=0.01) <= 0.02
    assert ks_min_detectable(n - 1, alpha=1e-6, ball=0.01) > 0.02
    with pytest.raises(ValueError, match="one bin and the ball"):
        ks_samples(0.01, alpha=1e-6, ball=0.01)


@pytest.mark.parametrize(
    ("row", "key", "token", "message"),
    [
        ([[0.5, 0.4998]], [[0, 1]], [0], "sums to 0.9998"),
        ([[0.5, 0.5]], [[0, 1, 2]], [0], "key has shape"),
        ([[0.5, 0.5]], [[0, math.nan]], [0], "a NaN"),
        ([[0.5, 0.5]], [[0, 1]], [2], r"span 2\.\.2"),
        ([[0.5, 0.5]], [[0, 1]], [0.0], "tokens is float64"),
        ([[0.5, 0.5]], [[0, 1]], [0, 1], "tokens is int64"),
    ],
)
def test_bounds_errors(row, key, token, message):
    with pytest.raises(ValueError, match=message):
        pit_bounds(row, key, np.array(token))


def test_order_errors():
    row = np.array([[0.5, 0.5]])
    with pytest.raises(ValueError, match="order is 'size'"):
        order_key("size", row)
    with pytest.raises(ValueError, match="q has shape"):
        order_key("ratio", row)


# Uniforms that are used twice: found in few pairs, in rows of any kind, and not seen elsewhere.


V = 20


def intervals(rng, n, share):
    """Two sides of ``n`` pairs, drawn from rows of their own, so many with one uniform."""
    first, second = rng.dirichlet(np.full(V, 0.3), (2, n))
    u = rng.random(n)
    v = np.where(rng.random(n) < share, u, rng.random(n))
    found = []
    for rows, draws in ((first, u), (second, v)):
        tokens = (np.cumsum(rows, axis=1) <= draws[:, None]).sum(axis=1).clip(0, V - 1)
        found.append(np.stack(pit_bounds(rows, order_key("index", rows), tokens)))
    return found


@pytest.mark.distribution
@pytest.mark.parametrize(("n", "share"), [(60, 1.0), (300, 0.5), (2000, 0.2)])
def test_repeated_uniforms_are_found_in_few_pairs(n, share):
    rng = np.random.default_rng(41)
    assert bet_test(stream_sums(*intervals(rng, n, share)), alpha=ALPHA).rejected
    assert not bet_test(stream_sums(*intervals(rng, n, 0.0)), alpha=ALPHA).rejected


@pytest.mark.distribution
def test_fresh_uniforms_are_called_repeated_no_more_often_than_alpha():
    rng = np.random.default_rng(42)

    def simulate(runs):
        return [
            bet_test(stream_sums(*intervals(rng, 50, 0.0)), alpha=0.5).log_pvalue
            for _ in range(runs)
        ]

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_a_chain_may_overlap():
    """Pairs at a lag share tokens: each factor still has an expectation of 1."""
    rng = np.random.default_rng(43)

    def simulate(runs):
        found = []
        for _ in range(runs):
            ends = intervals(rng, 50, 0.0)[0]
            found.append(bet_test(stream_sums(ends[:, :-1], ends[:, 1:]), alpha=0.5).log_pvalue)
        return found

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


def test_a_token_of_no_mass_bets_nothing():
    sums = stream_sums([[0.2], [0.2]], [[0.1], [0.4]])
    np.testing.assert_allclose(sums.log_wealth, 0.0)


@pytest.mark.parametrize("ends", [[[0.0], [1.1]], [[0.5], [0.4]], [[0.1, 0.2]], [[], []]])
def test_what_is_no_interval(ends):
    with pytest.raises(ValueError, match=r"interval|shapes"):
        stream_sums(ends, ends)
