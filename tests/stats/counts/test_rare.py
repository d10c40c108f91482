"""Rare tokens of rows that nearly always draw the same one: bounds, size, power, edges."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import RareTokens, expected_g2, rare_hidden, rare_test, transition_g2


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
def test_errors(alpha):
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
