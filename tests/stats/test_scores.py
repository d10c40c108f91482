"""Scores by hand, and their sums against plain loops."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from simverify import stats
from simverify.stats import (
    accept,
    contrast,
    q_above_p,
    rare_token,
    score_moments,
    score_sums,
    score_sums_of_contexts,
    surprise,
)
from simverify.stats.counts import MAX_OUTCOMES, SingleRowLaw, enumerate_counts, outcome_count

# The exact law of a lone row's G2, held against sequences of tokens tried one by one.


ROWS = {"thirds": (1 / 3, 1 / 3, 1 / 3), "apart": (0.6, 0.3, 0.1), "four": (0.4, 0.3, 0.2, 0.1)}


def by_sequences(probabilities, n):
    """Statistic and mass of every sequence of ``n`` tokens."""
    expected = n * np.array(probabilities)
    for tokens in itertools.product(range(len(probabilities)), repeat=n):
        counts = np.bincount(tokens, minlength=len(probabilities))
        mass = math.prod(probabilities[x] for x in tokens)
        yield 2.0 * special.kl_div(counts, expected).sum(), mass


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("n", [1, 4, 7])
def test_tails_are_those_of_all_sequences(row, n):
    law = SingleRowLaw(n * np.array(ROWS[row]))
    pairs = list(by_sequences(ROWS[row], n))
    for statistic in {statistic for statistic, _ in pairs}:
        at_least = math.fsum(mass for x, mass in pairs if x > statistic - 1e-9)
        assert law.log_sf(statistic) == pytest.approx(math.log(at_least), rel=1e-9, abs=1e-9)


def test_nothing_lies_beyond_the_largest_statistic():
    law = SingleRowLaw(np.array([2.0, 2.0, 2.0]))
    largest = 2.0 * 6 * math.log(3.0)
    assert law.log_sf(largest) == pytest.approx(math.log(3.0) - 6 * math.log(3.0))
    assert law.log_sf(largest + 1e-6) == -math.inf
    assert law.log_sf(-1.0) == 0.0


@pytest.mark.parametrize(("cells", "n"), [(1, 5), (2, 9), (3, 6), (5, 4)])
def test_all_counts_are_there_once(cells, n):
    counts = enumerate_counts(cells, n)
    assert len(np.unique(counts, axis=0)) == len(counts) == outcome_count(cells, n)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == n).all()


def test_a_lone_row_has_its_own_law_and_a_long_one_the_gamma():
    third = np.full((1, 3), 1 / 3)
    few = stats.g2_test(stats.transition_g2(np.array([[25, 3, 3]]), third), alpha=0.01)
    assert few.method == "G2, exact multinomial"
    many = next(n for n in itertools.count(300, 3) if outcome_count(3, n) > MAX_OUTCOMES)
    long = stats.g2_test(stats.transition_g2(np.full((1, 3), many // 3), third), alpha=0.01)
    assert long.method == "G2, three-moment gamma"


def test_two_rows_are_no_lone_one():
    rows = np.full((2, 3), 1 / 3)
    found = stats.g2_test(stats.transition_g2(np.full((2, 3), 12), rows), alpha=0.01)
    assert found.method == "G2, three-moment gamma"


def test_a_gamma_would_be_too_light_on_a_lattice():
    """Why the law is needed: at one atom the gamma's tail is less than half of what it is."""
    third = np.full((1, 3), 1 / 3)
    found = stats.transition_g2(np.array([[25, 3, 3]]), third)
    first, second, third_cumulant = found.cumulants
    shape, scale = 4 * second**3 / third_cumulant**2, third_cumulant / (2 * second)
    law = SingleRowLaw(found.pooled[0].expected)
    excess = [
        law.log_sf(x)
        - math.log(special.gammaincc(shape, (x - first + shape * scale) / scale))
        for x in sorted({2.0 * special.kl_div(c, 31 / 3).sum() for c in enumerate_counts(3, 31)})
        if math.log(1e-6) < law.log_sf(x) < math.log(0.1)
    ]  # fmt: skip
    assert max(excess) > math.log(2.0)


P = np.array([0.5, 0.25, 0.25, 0.0, 0.0])
Q = np.array([0.25, 0.25, 0.0, 0.5, 0.0])


def test_values_by_hand():
    assert q_above_p(P, Q).tolist() == [False, False, False, True, False]
    assert accept(P, Q).tolist() == [0.5, 1.0, 0.0, 1.0, 0.0]
    np.testing.assert_allclose(contrast(P, Q), [-1 / 3, 0, -1, 1, 0])
    np.testing.assert_allclose(
        surprise(P, cap=3.0), [math.log(2), math.log(4), math.log(4), 3.0, 3.0]
    )
    assert rare_token(P, below=0.3).tolist() == [False, True, True, True, True]
    # Rows of any number of axes.
    assert accept(np.tile(P, (2, 3, 1)), np.tile(Q, (2, 3, 1))).shape == (2, 3, 5)


def test_moments_by_hand():
    moments = score_moments(P[None], np.array([[0.0, 1.0, 3.0, -9.0, 9.0]]))
    assert moments.mean[0] == 1.0
    assert moments.variance[0] == 0.5 + 0.25 * 4
    assert moments.third[0] == -0.5 + 0.25 * 8
    assert moments.fourth[0] == 0.5 + 0.25 * 16
    # Tokens of probability 0 do not widen the range.
    assert (moments.low[0], moments.high[0]) == (0.0, 3.0)


def drawn(contexts=5, vocab=7):
    rng = np.random.default_rng(81)
    rows = rng.dirichlet(np.ones(vocab), contexts)
    scores = accept(rows, rng.dirichlet(np.ones(vocab), contexts))
    return rng.integers(0, 30, (contexts, vocab)), rows, scores


def test_contexts_and_single_tokens_agree():
    counts, rows, scores = drawn()
    table = score_sums_of_contexts(counts, rows, scores)
    context, token = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
    m = score_moments(rows, scores)
    streamed = score_sums(
        scores[context, token], mean=m.mean[context], variance=m.variance[context],
        third=m.third[context], fourth=m.fourth[context], low=m.low[context],
        high=m.high[context], width=1.0,
    )  # fmt: skip
    assert table.n == streamed.n == counts.sum()
    for name in ("deviation", "variance", "third", "fourth", "ranges"):
        assert getattr(table, name) == pytest.approx(getattr(streamed, name), rel=1e-12), name
    assert streamed.tables is None
    assert (table + streamed).tables is None
    assert (table + streamed).n == 2 * table.n


def test_shards_of_the_same_contexts_keep_one_table():
    counts, rows, scores = drawn()
    whole = score_sums_of_contexts(counts, rows, scores)
    half = counts // 2
    parts = [score_sums_of_contexts(c, rows, scores) for c in (half, counts - half)]
    both = parts[0] + parts[1]
    assert len(both.tables) == 1
    np.testing.assert_array_equal(both.tables[0].totals, whole.tables[0].totals)
    assert both.deviation == pytest.approx(whole.deviation)
    other = score_sums_of_contexts(counts, rows.copy(), scores)
    assert len((whole + other).tables) == 2
