"""The G2 test: exact size by enumeration, power at the planned deviation, edges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal, stats
from statsmodels.stats.power import GofChisquarePower
from support.false_alarms import ALPHA

from simverify.stats import (
    RareTokens,
    expected_g2,
    g2_min_detectable,
    g2_samples,
    g2_test,
    rare_hidden,
    rare_test,
    transition_g2,
)


def log_pvalue(counts, rows):
    return g2_test(transition_g2(np.array(counts), np.array(rows)), alpha=0.01).log_pvalue


def critical_value(null, alpha):
    """The statistic at which the claimed p-value crosses alpha."""
    low, high = 0.0, 1000.0
    for _ in range(40):
        middle = (low + high) / 2
        rejected = g2_test(replace(null, statistic=middle), alpha=alpha).rejected
        low, high = (low, middle) if rejected else (middle, high)
    return high


def test_size_of_a_sum_of_rows_by_convolution(multinomial_g2):
    """The exact law of the summed G2 of ten rows that barely pass the pooling rule."""
    rows = [(1 / 3, 1 / 3, 1 / 3)] * 3 + [(0.2, 0.3, 0.5)] * 4 + [(0.5, 0.5)] * 3
    totals = [30] * 3 + [50] * 4 + [20] * 3
    step = 2e-3
    law = np.ones(1)
    for n, row in zip(totals, rows, strict=True):
        values, weights = multinomial_g2(n, row)
        parts = np.bincount(np.rint(values / step).astype(int), weights)
        law = signal.fftconvolve(law, parts)[:60_000]  # off by 1e-16, far below the tails asked
    counts = np.zeros((10, 3), dtype=int)
    table = np.zeros((10, 3))
    for i, (n, row) in enumerate(zip(totals, rows, strict=True)):
        counts[i, 0] = n
        table[i, : len(row)] = row
    null = transition_g2(counts, table)
    assert null.df == 17
    tails = np.cumsum(law[::-1])[::-1]
    for alpha in (1e-2, 1e-3, 1e-5, 5e-8):
        critical = critical_value(null, alpha)
        beyond = tails[math.ceil(critical / step)]
        assert 0.85 * alpha <= beyond <= 1.07 * alpha


def test_size_of_one_row_by_enumeration(multinomial_g2):
    for n, row in ((60, (1 / 3, 1 / 3, 1 / 3)), (100, (0.1, 0.3, 0.6)), (80, (0.2, 0.2, 0.6))):
        values, weights = multinomial_g2(n, row)
        null = transition_g2(np.array([[n - 2, 1, 1]]), [row])
        for alpha in (1e-2, 1e-3, 1e-5, 5e-8):
            # The law is exact, and the lattice coarse: the next atom is up to half of alpha.
            size = weights[values > critical_value(null, alpha)].sum()
            assert 0.5 * alpha <= size <= alpha * (1 + 1e-9)


def walk(rng, rows, steps):
    """Transition counts of ``steps`` walkers that move at once, one table a step."""
    vocab = rows.shape[1]
    cdf = np.cumsum(rows, axis=1)
    state = np.zeros(4000, dtype=int)
    for _ in range(steps):
        token = np.minimum((rng.random(state.size)[:, None] > cdf[state]).sum(axis=1), vocab - 1)
        counts = np.zeros((len(rows), vocab), dtype=int)
        np.add.at(counts, (state, token), 1)
        yield counts
        state = token


@pytest.mark.distribution
@pytest.mark.thorough
def test_size_over_slots_of_a_chain_and_power_against_wrong_rows():
    """Contexts of later slots are earlier slots' tokens: row totals are random and dependent."""
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(8, 0.7), 8)
    repeats, alpha = 1000, 0.01
    rejections, caught = 0, 0
    for _ in range(repeats):
        slots = [transition_g2(c, rows) for c in walk(rng, rows, 3)]
        rejections += g2_test(slots[0] + slots[1] + slots[2], alpha=alpha).rejected
    assert stats.binomtest(rejections, repeats, alpha).pvalue > ALPHA
    # Negative control: every row moved a little towards uniform.
    wrong = 0.8 * rows + 0.2 / 8
    for _ in range(50):
        slots = [transition_g2(c, rows) for c in walk(rng, wrong, 3)]
        caught += g2_test(slots[0] + slots[1] + slots[2], alpha=alpha).rejected
    assert caught == 50


@pytest.mark.distribution
@pytest.mark.parametrize("spread", ["all rows", "four rows"])
def test_power_at_the_planned_deviation(spread):
    """A deviation of the promised mean TV is found nine times in ten, or more often."""
    rng = np.random.default_rng(6)
    contexts, vocab, tokens, alpha = 20, 16, 2000, 1e-6
    rows = np.full((contexts, vocab), 1.0 / vocab)
    null = transition_g2(np.array([rng.multinomial(tokens, row) for row in rows]), rows)
    result = g2_test(null, alpha=alpha)
    signs = np.where(np.arange(vocab) % 2, 1.0, -1.0)
    shift = np.zeros(contexts)
    shift[: contexts if spread == "all rows" else 4] = 1.0
    shift *= 2 * result.min_detectable * contexts / shift.sum()
    other = rows * (1 + shift[:, None] * signs)
    assert (np.abs(other - rows).sum(axis=1) / 2).mean() == pytest.approx(result.min_detectable)
    found = sum(
        g2_test(
            transition_g2(np.array([rng.multinomial(tokens, row) for row in other]), rows),
            alpha=alpha,
        ).rejected
        for _ in range(400)
    )
    assert stats.binom.cdf(found, 400, 0.9) > ALPHA
    assert found > 200


def test_df_one_is_exact(multinomial_g2):
    for n, p in ((20, 0.5), (40, 0.3), (300, 0.04)):
        values, weights = multinomial_g2(n, (p, 1 - p))
        for k in range(n + 1):
            own = values[k]
            exact = weights[values >= own * (1 - 1e-9)].sum()
            assert math.exp(log_pvalue([[k, n - k]], [[p, 1 - p]])) == pytest.approx(
                exact, rel=1e-9
            )


def test_df_one_far_out():
    # At p = 1/2 the two tails are equal.
    both = math.log(2) + stats.binom.logcdf(485_000, 10**6, 0.5)
    assert log_pvalue([[485_000, 515_000]], [[0.5, 0.5]]) == pytest.approx(both, rel=1e-9)
    assert log_pvalue([[0, 10**6]], [[0.5, 0.5]]) == pytest.approx(-(10**6 - 1) * math.log(2))


def test_far_tail_is_finite():
    g2 = transition_g2(np.array([[10**6, 0, 0]]), [[0.2, 0.3, 0.5]])
    result = g2_test(g2, alpha=1e-6, name="slot 1")
    assert result.rejected
    assert result.pvalue == 0.0
    # -G2/2 to leading order.
    assert result.log_pvalue == pytest.approx(10**6 * math.log(0.2), rel=1e-4)
    assert result.name == "slot 1"


def test_result_promises_what_pooling_leaves():
    rng = np.random.default_rng(7)
    rows = rng.dirichlet(np.full(50, 0.5), 3)
    g2 = transition_g2(np.array([rng.multinomial(3000, row) for row in rows]), rows)
    result = g2_test(g2, alpha=1e-6)
    assert g2.unresolved > 0
    assert result.min_detectable == pytest.approx(
        g2_min_detectable(g2.df, g2.n, alpha=1e-6) + g2.unresolved / g2.n
    )
    assert (result.n, result.df, result.deviation) == (9000, g2.df, "mean one-token TV")


def test_planning_against_statsmodels():
    for df, n, alpha, power in (
        (7, 1000, 0.01, 0.9),
        (63, 10**5, 1e-6, 0.8),
        (511, 10**6, 1e-6, 0.9),
    ):
        tv = g2_min_detectable(df, n, alpha=alpha, power=power)
        # Effect size w has noncentrality n w^2: w = 2 TV.
        got = GofChisquarePower().power(2 * tv, n, alpha, n_bins=df + 1)
        assert got == pytest.approx(power, abs=1e-6)
        assert g2_samples(tv, df, alpha=alpha, power=power) in (n, n + 1)


def test_planning_figures():
    # docs/explanation/statistics.md: df 511 gives a noncentrality of 222.
    assert 4 * g2_min_detectable(511, 10**6, alpha=1e-6) ** 2 * 10**6 == pytest.approx(222, abs=0.5)
    assert 4_000_000 < g2_samples(0.01, 36_000, alpha=1e-7) < 5_000_000
    assert g2_min_detectable(10, 3, alpha=1e-6) == math.inf
    assert g2_min_detectable(3, 100, alpha=0.5, power=0.4) == 0.0


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_alpha_errors(alpha):
    g2 = transition_g2(np.array([[30, 70]]), [[0.3, 0.7]])
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        g2_test(g2, alpha=alpha)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        g2_min_detectable(3, 100, alpha=alpha)


def test_errors():
    with pytest.raises(ValueError, match="df 0"):
        g2_test(transition_g2(np.array([[3, 7]]), [[0.3, 0.7]]), alpha=0.01)
    with pytest.raises(ValueError, match="df is 0"):
        g2_min_detectable(0, 100, alpha=0.01)
    with pytest.raises(ValueError, match="tv is 0"):
        g2_samples(0.0, 5, alpha=0.01)


def test_a_power_without_digits_is_refused():
    with pytest.raises(ValueError, match=r"power is 2\.3e-17, expected 1e-09 or more"):
        g2_min_detectable(18, 1000, alpha=2.19e-17, power=2.3e-17)


# Rare tokens of rows that nearly always draw the same one: bounds, size, power, edges.


def near_one_hot(rates, vocab=4):
    """Rows whose likeliest token is context mod V; the others share ``rates``."""
    rows = np.repeat(np.asarray(rates, float)[:, None] / (vocab - 1), vocab, axis=1)
    index = np.arange(len(rows))
    rows[index, index % vocab] = 1 - np.asarray(rates)
    return rows


def test_untested_rows_with_one_likely_token_have_them():
    rates = [1e-6, 0.0, 0.2, 0.5, 0.3, 0.01]
    totals = np.array([10_000, 500, 20, 12, 10, 100_000])
    rows = near_one_hot(rates)
    counts = np.zeros((6, 4), int)
    counts[np.arange(6), np.arange(6) % 4] = totals
    counts[0] += [-3, 2, 1, 0]
    g2 = transition_g2(counts, rows)
    # Row 1 has one possible token, rows 3 and 4 none that is likely, row 5 is tested.
    assert g2.rare == RareTokens(
        count=3, expected=pytest.approx(0.01 + 4.0), n=10_020, pooled=10_020.0
    )
    assert g2.df == 3
    assert g2.unresolved == 10_020 + 12 + 10


@pytest.mark.parametrize("tiny", [1e-9, 1e-300])
def test_a_large_cell_that_takes_in_a_tiny_token_hides_next_to_nothing(tiny):
    """The pool of .1 is unresolved, but whatever moves within it is counted."""
    rows, n = np.array([[tiny, 0.1, 0.9 - tiny]]), 1_000_000
    counts = np.array([[0, 100_000, 900_000]])
    g2 = transition_g2(counts, rows)
    assert (g2.df, g2.unresolved) == (1, pytest.approx(1e5))
    assert g2.rare == RareTokens(
        count=0, expected=pytest.approx(n * tiny), n=n, pooled=pytest.approx(1e5)
    )
    assert rare_hidden(g2.rare, alpha=1e-9) < 25
    assert not rare_test(g2.rare, alpha=1e-9).rejected
    # A mutant that the G2 cannot see: 30 of the tokens are the tiny one.
    moved = transition_g2(np.array([[30, 99_970, 900_000]]), rows)
    assert moved.statistic == pytest.approx(g2.statistic)
    assert rare_test(moved.rare, alpha=1e-9).rejected


def test_cells_of_like_probability_stay_unresolved():
    rows = np.array([[0.002, 0.003, 0.004, 0.991]])
    g2 = expected_g2(np.array([1500]), rows)
    assert (g2.df, g2.unresolved, g2.rare) == (1, pytest.approx(13.5), None)


@pytest.mark.parametrize("seed", range(20))
def test_the_pools_and_what_the_rare_tokens_say_bound_any_deviation(seed):
    """TV <= what cells show + unresolved - pooled + max(r, r'), for random laws."""
    rng = np.random.default_rng(seed)
    law, other = (rng.dirichlet(np.full(6, 0.15)) for _ in range(2))
    total = int(rng.integers(20, 2000))
    rows, expected = np.array([law]), np.array([total])
    unit = np.eye(6, dtype=int) * total
    g2 = expected_g2(expected, rows)
    rare = [0 if (r := transition_g2(u[None], rows).rare) is None else r.count for u in unit]
    r, r_other = float(law @ rare), float(other @ rare)
    # Two tokens share a cell if the G2 of one cannot be told from that of the other.
    cell = [round(transition_g2(u[None], rows).statistic, 6) for u in unit]
    shown = sum(
        abs(sum(total * (a - b) for a, b, c in zip(law, other, cell, strict=True) if c == one))
        for one in set(cell)
    )
    tv = total * np.abs(law - other).sum() / 2
    pooled = 0.0 if g2.rare is None else g2.rare.pooled
    assert tv <= shown / 2 + g2.unresolved - pooled + max(r, r_other) + 1e-6


def test_a_plan_expects_what_the_counts_will_be_judged_by():
    rng = np.random.default_rng(4)
    rows = np.vstack([near_one_hot([1e-5, 0.1, 0.0, 1e-12]), rng.dirichlet(np.ones(4), 3)])
    totals = np.array([900, 40, 10, 10**6, 15, 0, 400])
    counts = np.array([rng.multinomial(n, row) for n, row in zip(totals, rows, strict=True)])
    seen, plan = transition_g2(counts, rows), expected_g2(totals, rows)
    assert (plan.df, plan.n, plan.unresolved) == (seen.df, seen.n, seen.unresolved)
    assert plan.cumulants == seen.cumulants
    assert (plan.rare.expected, plan.rare.n) == (seen.rare.expected, seen.rare.n)
    assert plan.statistic == 0.0


def test_tiny_rates_keep_their_digits():
    rows = near_one_hot([3e-18, 3e-20])
    rare = expected_g2(np.array([10**6, 10**6]), rows).rare
    assert rare.expected == pytest.approx(3.03e-12, rel=1e-9)


def test_two_rows_without_state_of_their_own():
    one = expected_g2(np.array([50, 50]), np.eye(2))
    assert (one.df, one.unresolved, one.rare) == (0, 0.0, None)


def test_the_p_value_bounds_the_exact_tail():
    """Against the exact law of the count over rows of different rates."""
    totals, rates = np.array([30, 5, 200]), np.array([0.02, 0.25, 1e-3])
    law = np.ones(1)
    for n, rate in zip(totals, rates, strict=True):
        law = np.convolve(law, stats.binom.pmf(np.arange(n + 1), n, rate))
    tails = np.cumsum(law[::-1])[::-1]
    expected = float(totals @ rates)
    for count in range(12):
        rare = RareTokens(count=count, expected=expected, n=235, pooled=235)
        pvalue = rare_test(rare, alpha=0.01).pvalue
        assert pvalue >= tails[count] * (1 - 1e-9)
        # Rows of one rate have that very law.
        equal = rare_test(RareTokens(count=count, expected=23.5, n=235, pooled=235), alpha=0.01)
        assert equal.pvalue == 1.0
    for count in range(26, 60):
        equal = rare_test(RareTokens(count=count, expected=23.5, n=235, pooled=235), alpha=0.01)
        assert equal.pvalue == pytest.approx(stats.binom.sf(count - 1, 235, 0.1), rel=1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
@pytest.mark.parametrize("expected", [1e-6, 0.3, 8.0])
def test_what_may_hide_is_found_beyond(alpha, expected):
    """Whatever the rows that hold the excess, the power is .9 at the sum that may not hide."""
    n = 10_000
    hidden = rare_hidden(RareTokens(count=0, expected=expected, n=n, pooled=n), alpha=alpha)
    mean = hidden - expected
    critical = next(
        k for k in range(n)
        if rare_test(RareTokens(count=k, expected=expected, n=n, pooled=n), alpha=alpha).rejected
    )  # fmt: skip
    assert 0 < expected < mean < hidden < 100
    # All the excess in one row of m tokens that always err, or spread over all of them.
    assert stats.binom.sf(critical - 1, n, mean / n) >= 0.9 - 1e-9
    assert math.floor(mean) >= critical
    # And not much before: a quarter of it would mostly pass.
    assert stats.binom.sf(critical - 1, n, mean / n / 4) < 0.5


def test_what_may_hide_is_never_more_than_all():
    assert rare_hidden(RareTokens(count=0, expected=0.5, n=2, pooled=2), alpha=1e-9) == 2.0
    few = rare_test(RareTokens(count=1, expected=0.5, n=2, pooled=2), alpha=1e-9)
    assert few.min_detectable == math.inf
    assert not few.rejected


@pytest.mark.distribution
def test_size_and_a_rate_a_hundred_times_too_large():
    rng = np.random.default_rng(6)
    rates = np.array([1e-5, 1e-4, 1e-6])
    totals = np.array([30_000, 20_000, 50_000])
    rows, wrong = near_one_hot(rates), near_one_hot(100 * rates)

    def rejected(law):
        counts = np.array([rng.multinomial(n, row) for n, row in zip(totals, law, strict=True)])
        return rare_test(transition_g2(counts, rows).rare, alpha=ALPHA / 50).rejected

    assert not any(rejected(rows) for _ in range(50))
    assert all(rejected(wrong) for _ in range(50))


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan])
def test_errors_rare(alpha):
    rare = RareTokens(count=1, expected=0.5, n=20, pooled=20)
    for function in (rare_test, rare_hidden):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            function(rare, alpha=alpha)


@pytest.mark.parametrize(
    ("totals", "message"),
    [([1, 2, 3], "one per row"), ([0, 0], "all 0"), ([-1, 2], "no negative"), ([0.5, 1], "dtype")],
)
def test_plan_errors(totals, message):
    with pytest.raises(ValueError, match=message):
        expected_g2(np.array(totals), np.eye(2))
