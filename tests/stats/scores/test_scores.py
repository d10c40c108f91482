"""Scores by hand, and their sums against plain loops."""

import math

import numpy as np
import pytest

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
