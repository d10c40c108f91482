"""The constants of planning, each pair inverse to the other, and one table for all tests."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import (
    acceptance_min_detectable,
    budget_table,
    certificate_bound,
    certificate_samples,
    correlation_samples,
    eprocess_growth,
    g2_samples,
    ks_min_detectable,
    mixing_min_detectable,
    mixing_samples,
    monotone_certificate,
    plan_table,
    plug_in_certificate,
    ratio_min_detectable,
    ratio_samples,
    refutation_min_detectable,
    refutation_samples,
)


def test_constants():
    """At alpha 1e-6 two-sided and power .9, and at alpha/20."""
    assert mixing_samples(1e-3, 1.0, alpha=1e-6) / 1e6 == pytest.approx(38.1, abs=0.05)
    assert mixing_samples(1e-3, 1.0, alpha=1e-6 / 20) / 1e6 == pytest.approx(45.3, abs=0.05)
    one = 2**40
    assert ks_min_detectable(10**6, alpha=1e-6, bins=one) * 1e3 == pytest.approx(3.33, abs=0.005)
    level = 1e-6 / 20
    assert ks_min_detectable(10**6, alpha=level, bins=one) * 1e3 == pytest.approx(3.60, abs=0.005)
    # TV_min = .5 sqrt(lambda/N) with lambda 222 at df 511.
    assert 4 * g2_samples(1e-3, 511, alpha=1e-6) / 1e6 == pytest.approx(222, abs=0.5)
    theta = 0.01
    assert refutation_samples(theta**2 / 2) * theta**2 == pytest.approx(14, abs=0.25)
    assert eprocess_growth(1e-6) == pytest.approx((math.sqrt(13.8155 + 0.8212) + 0.9062) ** 2, 1e-4)


def test_planned_end_is_cheaper_than_any_time():
    """Against the best single score at full alpha: 1.23 and about 1.4 with 75 cells."""
    single = mixing_samples(1e-3, 1.0, alpha=1e-6)
    fixed = ratio_samples(5e-7, alpha=1e-6 / 75)
    anytime = 2 * eprocess_growth(1e-6, weight=1 / 75) * 1e6
    assert fixed / single == pytest.approx(1.23, abs=0.01)
    assert fixed < anytime < 1.5 * single


@pytest.mark.distribution
def test_refutation_takes_what_it_says():
    """A sequential test of healthy normal increments; the false refutations stay under beta."""
    rng, repeats, theta, beta = np.random.default_rng(99), 2000, 0.3, 0.1
    drift = theta**2 / 2

    def tokens(mean):
        log_e = np.cumsum(rng.normal(mean, theta, (repeats, 3000)), axis=1)
        crossed = log_e >= -math.log(beta)
        return np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1, 0)

    healthy, faulty = tokens(drift), tokens(-drift)
    expected = refutation_samples(drift, beta=beta)
    # The last step overshoots by .58 standard deviations.
    overshoot = 0.583 * theta / drift
    spread = np.std(healthy) / math.sqrt(repeats) * stats.norm.isf(ALPHA / 4)
    assert (healthy > 0).all()
    assert abs(healthy.mean() - expected - overshoot) <= spread + 1
    assert (faulty > 0).sum() <= stats.binom.isf(ALPHA / 2, repeats, beta)
    # Negative control: without the overshoot and at half the hurdle it does not hold.
    assert abs(healthy.mean() - expected / 2) > spread + overshoot


@pytest.mark.parametrize("d", [1e-3, 0.02, 0.3])
def test_each_pair_is_inverse(d):
    pairs = [
        (mixing_samples(d, 2.0, alpha=1e-6), lambda n: mixing_min_detectable(n, 2.0, alpha=1e-6)),
        (ratio_samples(d, alpha=1e-6), lambda n: ratio_min_detectable(n, alpha=1e-6)),
        (refutation_samples(d), lambda n: refutation_min_detectable(n)),
        *(
            (
                certificate_samples(d, method=method, cells=64),
                lambda n, method=method: certificate_bound(n, method=method, cells=64),
            )
            for method in ("plug-in", "monotone")
        ),
    ]
    for n, back in pairs:
        assert back(n) <= d * (1 + 1e-12)
        assert n == 1 or back(n - 1) > d


@pytest.mark.distribution
@pytest.mark.parametrize("method", ["plug-in", "monotone"])
def test_healthy_code_certifies_what_was_planned(method):
    rng, bound, delta, repeats = np.random.default_rng([100, len(method)]), 0.05, 1e-3, 100
    n = certificate_samples(bound, method=method, cells=64, delta=delta)

    def certify(n):
        if method == "plug-in":
            row = np.full((1, 64), 1 / 64)
            return plug_in_certificate(rng.multinomial(n, row[0])[None], row, delta=delta)
        return monotone_certificate(rng.multinomial(n, np.full(4096, 1 / 4096)), delta=delta)

    at, half = (np.array([certify(m).bound for _ in range(repeats)]) for m in (n, n // 2))
    slack = at.std() / math.sqrt(repeats) * stats.norm.isf(ALPHA)
    assert at.mean() <= bound + slack
    assert at.mean() > 0.85 * bound
    assert half.mean() > bound + slack


@pytest.mark.distribution
@pytest.mark.parametrize("strength", [0.02, 0.1])
def test_best_score_has_the_planned_power(strength):
    """The score P_m/P - 1, two-sided at the planned tokens; a third of them do not suffice."""
    rng, alpha, repeats = np.random.default_rng(101), 1e-6, 400
    row, fault = np.array([0.5, 0.3, 0.2]), np.array([0.35, 0.35, 0.3])
    score = fault / row - 1
    chi2 = float(row @ score**2)
    mixed = (1 - strength) * row + strength * fault
    critical = stats.norm.isf(alpha / 2)

    def found(n):
        sums = rng.multinomial(n, mixed, repeats) @ score
        return (np.abs(sums) > critical * math.sqrt(n * chi2)).sum()

    n = mixing_samples(strength, chi2, alpha=alpha)
    # The fault's own variance differs from the target's by a part of the strength.
    expected = stats.norm.sf(
        (critical * math.sqrt(n * chi2) - n * strength * chi2)
        / math.sqrt(n * (mixed @ score**2 - (strength * chi2) ** 2))
    )
    assert expected == pytest.approx(0.9, abs=0.01)
    assert stats.binom.isf(1 - ALPHA, repeats, expected) <= found(n)
    assert found(n) <= stats.binom.isf(ALPHA, repeats, expected)
    assert found(n // 3) < stats.binom.isf(1 - ALPHA, repeats, 0.9)


def test_one_table_for_all_tests():
    table = plan_table(alpha=1e-6, power=0.9, deviation=0.01, vocab_size=64, gamma=8, contexts=64)
    rows = {row.test: row for row in table.rows}
    assert len(rows) == len(table.rows) == 10
    assert all(row.deviation == 0.01 and 1 < row.samples < math.inf for row in table.rows)
    assert rows["acceptance"].unit == "blocks"
    # The levels of all that may fail a run stay within alpha: cells, scores and the rest.
    assert sum(
        (
            75 * rows["named fault, at any time"].level,
            75 * rows["named fault, planned end"].level,
            5 * 10 * rows["score 1{q>p}"].level * 2,
            7 * rows["PIT-KS, q/p order"].level * 2,
        )
    ) == pytest.approx(1e-6)
    transitions = rows["transitions G2"]
    assert transitions.samples == g2_samples(0.01, 64 * 63, alpha=transitions.level)


def test_the_table_back_from_a_budget():
    plan = plan_table(vocab_size=6000, gamma=4, deviation=0.02)
    for row in plan.rows:
        back = {
            r.test: r for r in budget_table(samples=int(row.samples), vocab_size=6000, gamma=4).rows
        }[row.test]
        assert back.level == row.level
        assert back.deviation == pytest.approx(0.02, rel=2e-3)
    few = budget_table(samples=5, vocab_size=64, gamma=4)
    assert [row.deviation for row in few.rows[:7]] == [math.inf] * 7
    half = [0.5] * 4
    level = {row.test: row.level for row in few.rows}["acceptance"]
    assert acceptance_min_detectable(5, half, half, alpha=level) == math.inf


def test_rows_of_pairs_are_their_own_plans():
    rows = {row.test: row for row in plan_table(vocab_size=8, gamma=4, deviation=0.05).rows}
    pairs = rows["pairs, correlation"]
    assert pairs.samples == correlation_samples(0.05, alpha=pairs.level)


def test_deviations_too_small_for_a_histogram_are_never_found():
    rows = {row.test: row for row in plan_table(deviation=1e-5, vocab_size=4, gamma=1).rows}
    assert rows["PIT-KS, q/p order"].samples == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mixing_samples(0.0, 1.0, alpha=0.1), "strength is 0"),
        (lambda: mixing_samples(0.1, math.inf, alpha=0.1), "chi2 is inf"),
        (lambda: mixing_min_detectable(0, 1.0, alpha=0.1), "n is 0"),
        (lambda: ratio_samples(-1.0, alpha=0.1), "divergence is -1"),
        (lambda: ratio_samples(1.0, alpha=1.5), "alpha is 1.5"),
        (lambda: ratio_min_detectable(5, alpha=0.1, power=1.0), "power is 1"),
        (lambda: refutation_samples(0.1, beta=1.0), "beta is 1"),
        (lambda: refutation_min_detectable(0), "n is 0"),
        (lambda: certificate_samples(1.0, method="monotone"), "bound is 1"),
        (lambda: certificate_samples(0.1, method="other"), "method is 'other'"),
        (lambda: certificate_bound(5, method="plug-in", cells=1), "cells is 1"),
        (lambda: plan_table(vocab_size=1, gamma=1), "vocab_size is 1"),
        (lambda: plan_table(vocab_size=4, gamma=0), "gamma is 0"),
        (lambda: plan_table(vocab_size=4, gamma=1, deviation=0.0), "deviation is 0"),
        (lambda: plan_table(vocab_size=4, gamma=1, contexts=0), "contexts is 0"),
        (lambda: plan_table(vocab_size=4, gamma=1, alpha=math.nan), "alpha is nan"),
        (lambda: budget_table(samples=0, vocab_size=4, gamma=1), "samples is 0"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
