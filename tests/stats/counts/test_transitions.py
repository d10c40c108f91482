"""Pooling and moments of the transition G2, by enumeration and naive oracles."""

import math

import numpy as np
import pytest
from scipy import stats

from simverify.stats import transition_g2
from simverify.stats.counts.transitions import _pools

RNG = np.random.default_rng(11)


def random_table(contexts, vocab, tokens, concentration=1.0):
    rows = RNG.dirichlet(np.full(vocab, concentration), contexts)
    return np.array([RNG.multinomial(tokens, row) for row in rows]), rows


def test_statistic_without_pooling_is_scipys():
    rows = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    counts = np.array([[8, 25, 67], [70, 40, 90]])
    expected = sum(
        stats.power_divergence(c, c.sum() * p, lambda_="log-likelihood").statistic
        for c, p in zip(counts, rows, strict=True)
    )
    g2 = transition_g2(counts, rows)
    assert g2.statistic == pytest.approx(expected, rel=1e-12)
    assert (g2.df, g2.n, g2.unresolved, g2.two_cells) == (4, 300, 0.0, None)


@pytest.mark.parametrize("concentration", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("tokens", [9, 19, 20, 21, 300, 5000])
def test_pools_expect_ten_or_more(tokens, concentration):
    rows = np.sort(RNG.dirichlet(np.full(40, concentration), 50), axis=1)
    expected = tokens * rows
    group, cells = _pools(expected)
    for row, pools, count in zip(expected, group, cells, strict=True):
        sums = [row[pools == g].sum() for g in range(count)]
        assert all(s >= 10 - 1e-9 for s in sums)
        if count:
            assert sum(sums) == pytest.approx(tokens)
            assert (np.diff(pools) >= 0).all()
            # A cell that expects 10 or more is pooled with rare tokens at most.
            assert max(np.bincount(pools[row >= 10.0]), default=0) <= 1
        else:
            assert tokens < 10


def test_pools_ignore_the_counts():
    rows = RNG.dirichlet(np.full(30, 0.5), 4)
    tables = [np.array([RNG.multinomial(200, row) for row in law]) for law in (rows, rows[::-1])]
    first, second = (transition_g2(table, rows) for table in tables)
    assert first.statistic != second.statistic
    assert first.cumulants == second.cumulants
    assert (first.df, first.unresolved) == (second.df, second.unresolved)


def test_unresolved_bounds_what_pooling_hides():
    for _ in range(200):
        p = np.sort(RNG.dirichlet(np.full(30, 0.4), 1), axis=1)
        other = RNG.dirichlet(np.full(30, 0.4))
        tokens = int(RNG.integers(25, 1500))
        counts = RNG.multinomial(tokens, p[0])[None, :]
        g2 = transition_g2(counts, p)
        group, cells = _pools(tokens * p)
        difference = p[0] - other
        seen = np.abs(np.bincount(group[0], difference)).sum() / 2 if cells[0] > 1 else 0.0
        assert np.abs(difference).sum() / 2 <= seen + g2.unresolved / tokens + 1e-12


def test_rare_and_impossible_tokens_join_the_next_cell():
    rows = np.array([[0.0, 0.6, 0.39, 0.01]])
    g2 = transition_g2(np.array([[1, 60, 38, 1]]), rows)
    # Cells: {0, .01, .39} and {.6}.
    expected = stats.power_divergence([40, 60], [40, 60], lambda_="log-likelihood").statistic
    assert g2.statistic == pytest.approx(expected, abs=1e-12)
    assert g2.df == 1
    assert g2.unresolved == pytest.approx(40.0)
    # Pooled with impossible tokens alone, a cell still stands for itself.
    assert transition_g2(np.array([[0, 60, 40]]), [[0.0, 0.6, 0.4]]).unresolved == 0.0


def test_small_rows_drop_out():
    rows = np.full((3, 4), 0.25)
    counts = np.array([[4, 5, 6, 4], [0, 0, 0, 0], [30, 25, 20, 25]])
    g2 = transition_g2(counts, rows)
    assert g2.df == 3
    assert g2.n == 119
    assert g2.unresolved == 19.0
    alone = transition_g2(counts[2:], rows[2:])
    assert g2.statistic == alone.statistic
    nothing = transition_g2(counts[:1], rows[:1])
    assert (nothing.df, nothing.statistic, nothing.unresolved) == (0, 0.0, 19.0)


def test_slots_add_up_to_their_stacked_rows():
    tables = [random_table(6, 12, tokens) for tokens in (400, 90, 15)]
    parts = [transition_g2(*table) for table in tables]
    total = parts[0] + parts[1] + parts[2]
    whole = transition_g2(*(np.concatenate(side) for side in zip(*tables, strict=True)))
    assert total.statistic == pytest.approx(whole.statistic)
    assert total.cumulants == pytest.approx(whole.cumulants)
    assert (total.df, total.n) == (whole.df, whole.n)
    assert total.unresolved == pytest.approx(whole.unresolved)


def test_adding_an_untested_slot_keeps_the_binomial_row():
    tested = transition_g2(np.array([[30, 70]]), [[0.3, 0.7]])
    untested = transition_g2(np.array([[3, 7]]), [[0.3, 0.7]])
    assert (untested + tested).two_cells == tested.two_cells
    assert tested.two_cells is not None
    assert (tested + tested).two_cells is None


@pytest.mark.parametrize(
    ("tokens", "row"),
    [
        (30, (1 / 3, 1 / 3, 1 / 3)),
        (100, (0.1, 0.3, 0.6)),
        (60, (0.25, 0.25, 0.25, 0.25)),
        (600, (0.2, 0.3, 0.5)),
    ],
)
def test_cumulants_against_enumeration(multinomial_g2, tokens, row):
    """What Poisson cumulants get wrong is of order 1/N^2, and on the conservative side."""
    values, weights = multinomial_g2(tokens, row)
    mean = weights @ values
    exact = [mean, weights @ (values - mean) ** 2, weights @ (values - mean) ** 3]
    counts = np.array([[tokens - len(row) + 1, *[1] * (len(row) - 1)]])
    claimed = transition_g2(counts, [row]).cumulants
    for got, want, most in zip(claimed, exact, (2, 10, 30), strict=True):
        assert 0 <= got / want - 1 <= most / tokens**2


def test_rows_may_be_off_by_rounding():
    rows = np.array([[0.3, 0.7 + 9e-10]])
    assert transition_g2(np.array([[300, 700]]), rows).statistic == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("counts", "rows", "message"),
    [
        ([[0, 0]], [[0.5, 0.5]], "counts are all 0"),
        ([[5]], [[1.0]], "1 categories"),
        ([[5, -1]], [[0.5, 0.5]], "no negative count"),
        ([[5, 1]], [[0.5, 0.6]], "sums to 1.1"),
        ([[5, 1]], [[math.nan, 1.0]], "NaN"),
        ([[5.0, math.nan]], [[0.5, 0.5]], "expected integers"),
        (np.zeros((0, 2), int), np.zeros((0, 2)), "counts are all 0"),
    ],
)
def test_errors(counts, rows, message):
    with pytest.raises(ValueError, match=message):
        transition_g2(np.array(counts), np.array(rows))
