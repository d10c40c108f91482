"""Declared balls of counts: what moves can take, the size at the ball's edge, power beyond."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import (
    g2_min_detectable,
    g2_samples,
    g2_test,
    transition_g2,
)
from simverify.stats.counts.coupling import log_pvalue, most_moves
from simverify.stats.counts.g2 import Pooled

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
        found = Pooled(table.ravel() * 1.0, expected.ravel()).least(moves)
        assert found <= due + 1e-9
        # Rows are left balanced by the best moves alone; the bound need not leave them so.
        assert found >= 0.5 * due
        if moves == 0:
            assert found == pytest.approx(due)


def test_the_p_value_is_the_smallest_level_that_rejects():
    n, ball = 1000, 0.01

    def tail(moves):
        return -2.0 * max(60 - moves, 0)

    log_p = log_pvalue(n, ball, tail)
    for level, rejects in ((math.exp(log_p) * 1.01, True), (math.exp(log_p) * 0.99, False)):
        allowed = most_moves(n, ball, alpha=level)
        assert stats.binom.sf(allowed, n, ball) <= level / 2
        assert stats.binom.sf(allowed - 1, n, ball) > level / 2
        assert (tail(allowed) <= math.log(level / 2)) == rejects
    assert log_pvalue(n, ball, lambda m: 0.0) == 0.0


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
