"""Pooling and moments of the transition G2, by enumeration and naive oracles."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import g2_min_detectable, g2_samples, g2_test, transition_g2
from simverify.stats.counts import (
    PooledCells,
    _assign_pools,
    coupled_log_pvalue,
    disjoint_pairs,
    duplicates_test,
    max_moves,
    pair_g2,
)
from simverify.stats.pits import MIN_PAIRS, pair_sums
from simverify.stats.pits import pit_correlation as correlation_test

# Declared balls of counts: what moves can take, the size at the ball's edge, power beyond.


# What moves can take from a statistic.


def moved(table, moves):
    """All tables (contexts, V) that ``moves`` tokens or fewer, within contexts, make of one."""
    seen = {tuple(table.ravel())}
    frontier = set(seen)
    cells = list(np.ndindex(table.shape))
    for _ in range(moves):
        fresh = set()
        for flat in frontier:
            for (r, a), (s, b) in itertools.permutations(cells, 2):
                one = np.array(flat).reshape(table.shape)
                if r == s and one[r, a] > 0:
                    one[r, a] -= 1
                    one[s, b] += 1
                    fresh.add(tuple(one.ravel()))
        frontier = fresh - seen
        seen |= fresh
    return [np.array(flat).reshape(table.shape) for flat in seen]


@pytest.mark.parametrize("moves", [0, 1, 3])
def test_no_moves_make_a_g2_smaller_than_said(moves):
    rng = np.random.default_rng(201)
    rows = rng.dirichlet(np.full(3, 3.0), 2)
    for table in (rng.multinomial(60, rows), rng.multinomial(60, rows[::-1])):
        expected = table.sum(axis=1)[:, None] * rows
        due = min(2 * special.kl_div(one, expected).sum() for one in moved(table, moves))
        found = PooledCells(table.ravel() * 1.0, expected.ravel()).least(moves)
        assert found <= due + 1e-9
        # Rows are left balanced by the best moves alone; the bound need not leave them so.
        assert found >= 0.5 * due
        if moves == 0:
            assert found == pytest.approx(due)


def test_the_p_value_is_the_smallest_level_that_rejects():
    n, ball = 1000, 0.01

    def tail(moves):
        return -2.0 * max(60 - moves, 0)

    log_p = coupled_log_pvalue(n, ball, tail)
    for level, rejects in ((math.exp(log_p) * 1.01, True), (math.exp(log_p) * 0.99, False)):
        allowed = max_moves(n, ball, alpha=level)
        assert stats.binom.sf(allowed, n, ball) <= level / 2
        assert stats.binom.sf(allowed - 1, n, ball) > level / 2
        assert (tail(allowed) <= math.log(level / 2)) == rejects
    assert coupled_log_pvalue(n, ball, lambda m: 0.0) == 0.0


# Size at the edge, power beyond.

CONTEXTS, VOCAB, TOKENS, BALL = 6, 12, 2000, 0.02


def edge(rows, ball):
    """Rows with ``ball`` of mass moved from the likeliest token to the rarest: a large G2."""
    out = rows.copy()
    index = np.arange(len(rows))
    out[index, rows.argmin(axis=1)] += ball
    out[index, rows.argmax(axis=1)] -= ball
    return out


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(203).dirichlet(np.full(VOCAB, 2.0), CONTEXTS)


def g2_log_pvalues(rows, law, n, seed, **options):
    rng = np.random.default_rng([seed, n])
    return [
        g2_test(transition_g2(rng.multinomial(TOKENS, law), rows), alpha=0.5, **options).log_pvalue
        for _ in range(n)
    ]


@pytest.mark.distribution
@pytest.mark.thorough
def test_g2_keeps_its_size_at_the_edge_of_the_ball(rows):
    law = edge(rows, BALL)
    found = wrong_size(
        lambda n: g2_log_pvalues(rows, law, n, 204, ball=BALL), runs=400, band=(0.0, 1.0)
    )
    assert found is None
    # Negative control: without the ball such rows are found, each time.
    assert max(g2_log_pvalues(rows, law, 50, 205)) < math.log(1e-3)


@pytest.mark.distribution
def test_g2_finds_what_it_promises_beyond_the_ball(rows):
    rows = np.full((CONTEXTS, VOCAB), 1 / VOCAB)
    n = CONTEXTS * TOKENS
    tv = g2_min_detectable(CONTEXTS * (VOCAB - 1), n, alpha=1e-6, ball=BALL)
    assert tv > BALL + g2_min_detectable(CONTEXTS * (VOCAB - 1), n, alpha=1e-6)
    spread = rows * (1 + 2 * tv * np.where(np.arange(VOCAB) % 2, 1.0, -1.0))
    lone = rows + tv * np.where(np.arange(VOCAB) == 0, 1.0, -1.0 / (VOCAB - 1))
    for law in (spread, lone):
        assert np.abs(law - rows).sum(axis=1) == pytest.approx(2 * tv)
        log_p = np.array(g2_log_pvalues(rows, law, 100, 206, ball=BALL))
        assert stats.binom.cdf((log_p < math.log(1e-6)).sum(), 100, 0.9) > ALPHA


def test_a_plan_within_a_ball():
    n = g2_samples(0.02, 63, alpha=1e-6, ball=0.005)
    assert g2_min_detectable(63, n, alpha=1e-6, ball=0.005) <= 0.02
    assert g2_min_detectable(63, int(0.97 * n), alpha=1e-6, ball=0.005) > 0.02
    with pytest.raises(ValueError, match=r"tv is 0.005, expected more than the ball, 0.005"):
        g2_samples(0.005, 63, alpha=1e-6, ball=0.005)


@pytest.mark.parametrize("ball", [1e-3, 0.02])
def test_two_cells_are_exact_in_the_ball(ball):
    n, p = 400, 0.3
    counts = np.arange(n + 1)
    log_p = np.array([
        g2_test(transition_g2([[k, n - k]], [[p, 1 - p]]), alpha=0.5, ball=ball).log_pvalue
        for k in counts
    ])  # fmt: skip
    for level in (1e-2, 1e-6):
        rejected = log_p <= math.log(level)
        for law in (p - ball, p, p + ball):
            assert stats.binom.pmf(counts, n, law)[rejected].sum() <= level
        assert stats.binom.pmf(counts, n, p + ball)[rejected].sum() > 0.2 * level


def test_a_ball_needs_counts(rows):
    g2 = transition_g2(np.full((1, 4), 50), np.full((1, 4), 0.25))
    with pytest.raises(ValueError, match=r"ball is 0\.1 for a G2 without counts"):
        g2_test(type(g2)(**{**vars(g2), "pooled": ()}), alpha=0.5, ball=0.1)
    with pytest.raises(ValueError, match="ball is 1, expected a TV distance in"):
        g2_test(g2, alpha=0.5, ball=1)
    assert "null within TV 0.01" in g2_test(g2, alpha=0.5, ball=0.01).method


def test_a_smaller_ball_is_closer_to_none(rows):
    counts = np.random.default_rng(207).multinomial(TOKENS, edge(rows, 0.02))
    g2 = transition_g2(counts, rows)
    log_p = [g2_test(g2, alpha=0.5, ball=ball).log_pvalue for ball in (0.0, 1e-9, 1e-3, 0.02)]
    assert log_p == sorted(log_p)
    assert log_p[1] == pytest.approx(log_p[0], abs=25)


# Tests of pairs: their size under independence, their power against what pairs share.


ROW = np.array([0.5, 0.3, 0.2])
RUNS, LEVEL = 1000, 0.01


def pit_correlation(first, second, **options):
    return correlation_test(pair_sums(first, second), **options)


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_disjoint_pairs_share_no_member_and_meet_all_neighbours(lag):
    n = 37
    met = set()
    for phase in range(2):
        first = disjoint_pairs(n, lag, phase)
        members = np.concatenate([first, first + lag])
        assert len(set(members)) == len(members)
        assert members.max() < n
        met |= set(first.tolist())
    assert met == set(range(n - lag))


def test_fewer_members_than_the_lag_make_no_pairs():
    assert len(disjoint_pairs(3, 5, 0)) == 0


def uniforms(runs, n, shared=0.0):
    """PITs in a row; each is its predecessor's with probability ``shared``."""
    rng = np.random.default_rng(61)
    u = rng.random((runs, n))
    copied = rng.random((runs, n)) < shared
    for i in range(1, n):
        u[:, i] = np.where(copied[:, i], u[:, i - 1], u[:, i])
    return u


def rejected(pvalues):
    return int((np.array(pvalues) < LEVEL).sum())


@pytest.mark.distribution
def test_correlation_has_its_size_on_overlapping_pairs():
    pvalues = [pit_correlation(u[:-1], u[1:], alpha=LEVEL).pvalue for u in uniforms(RUNS, 4001)]
    low, high = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], RUNS, LEVEL)
    assert low <= rejected(pvalues) <= high
    # Negative control: a tenth of the stream repeated.
    control = uniforms(20, 4001, shared=0.1)
    assert rejected([pit_correlation(u[:-1], u[1:], alpha=LEVEL).pvalue for u in control]) == 20


@pytest.mark.distribution
def test_correlation_finds_what_it_promises():
    """Mixtures of equal and independent PITs have the correlation of the mixing weight."""
    n = 5000
    shift = pit_correlation(np.zeros(n), np.ones(n), alpha=LEVEL).min_detectable
    rng = np.random.default_rng(62)
    found = 0
    for _ in range(400):
        u, v = rng.random((2, n))
        v = np.where(rng.random(n) < shift, u, v)
        found += pit_correlation(u, v, alpha=LEVEL).rejected
    assert found >= stats.binom.ppf(ALPHA, 400, 0.88)
    assert found < 400


@pytest.mark.distribution
def test_pairs_and_duplicates_have_their_size_and_see_a_shared_draw():
    rng = np.random.default_rng(63)
    n, chance = 600, float((ROW**2).sum())

    def pvalues(shared):
        a, b = (rng.choice(3, p=ROW, size=n) for _ in range(2))
        b = np.where(rng.random(n) < shared, a, b)
        table = g2_test(pair_g2(a, b, ROW), alpha=LEVEL).pvalue
        return table, duplicates_test(int((a == b).sum()), n, chance, alpha=LEVEL).pvalue

    healthy = np.array([pvalues(0.0) for _ in range(RUNS)]).T
    # The table's law is the three-moment gamma, the duplicates' is exact and doubled.
    low, high = stats.binom.ppf([ALPHA / 3, 1 - ALPHA / 3], RUNS, [0.8 * LEVEL, 1.25 * LEVEL])
    assert low <= rejected(healthy[0]) <= high
    assert rejected(healthy[1]) <= stats.binom.ppf(1 - ALPHA / 3, RUNS, LEVEL / 2)
    faulty = np.array([pvalues(0.3) for _ in range(20)]).T
    assert rejected(faulty[0]) == rejected(faulty[1]) == 20


def test_values_by_hand():
    u = np.tile([0.0, 1.0], MIN_PAIRS // 2)
    assert pit_correlation(u, u, alpha=0.01).statistic == pytest.approx(3.0)
    assert pit_correlation(u, 1 - u, alpha=0.01).statistic == pytest.approx(-3.0)
    g2 = pair_g2(np.repeat([0, 1], 50), np.tile([0, 1], 50), np.array([0.5, 0.5]))
    assert g2.statistic == pytest.approx(0.0)
    assert (g2.df, g2.n) == (3, 100)
    both = 2 * stats.binom.sf(29, 50, 0.38)
    assert duplicates_test(30, 50, 0.38, alpha=0.01).pvalue == pytest.approx(both)
    assert duplicates_test(0, 50, 0.38, alpha=0.01).pvalue == 1.0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="10 pairs"):
        pit_correlation(np.zeros(10), np.zeros(10), alpha=0.01)
    wrong = np.full(MIN_PAIRS, math.nan)
    with pytest.raises(ValueError, match="NaN or outside"):
        pit_correlation(wrong, wrong, alpha=0.01)
    with pytest.raises(ValueError, match=r"span 0\.\.3"):
        pair_g2([0, 3], [1, 1], ROW)
    with pytest.raises(ValueError, match="shapes"):
        pair_g2([0, 1], [1], ROW)
    with pytest.raises(ValueError, match="phase is 2"):
        disjoint_pairs(5, 1, 2)


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
    group, cells = _assign_pools(expected)
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
        group, cells = _assign_pools(tokens * p)
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
