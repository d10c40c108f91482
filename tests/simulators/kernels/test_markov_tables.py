"""The compiled access functions on Markov tables against explicit rows."""

import math

import numpy as np
import pytest
from numba import njit
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles import naive

from simverify.models.base import compact, toy
from simverify.models.markov import markov
from simverify.simulators.kernels import access
from simverify.simulators.run import model_tables

LAWS = [(1.0, 0.0), (1.0, 1.0), (0.3, 1.0), (2.5, 1.0), (40.0, 1.0), (0.9, 2.0), (7.0, 3.0),
        (0.0, 1.0), (1e-9, 1.0), (1e9, 1.0)]  # fmt: skip
MODELS = {
    "toy": toy(),
    "compact": compact(),
    "one-hot": one_hot_pair(),
    "equal": equal_pair(),
    "partly-equal": partly_equal_pair(),
    "disjoint": disjoint_pair(),
    "markov-64": markov(64),
    "far": markov(5, distance=1.0),
    "cold": markov(9, temperature=0.3),
    **{f"zeros-{i}": random_pair(i, 4, states=3) for i in range(4)},
}
UNIFORMS = np.concatenate([np.random.default_rng(1).random(400), [0.0, 2.0**-53, 1 - 2.0**-53]])


@njit
def every_token(tables, state, v):
    size = tables.target.shape[1]
    out = np.empty((5, size))
    for x in range(size):
        out[0, x] = access.ratio(tables, state, x)
        out[1, x] = access.target_prob(tables, state, x)
        out[2, x], out[3, x] = access.pits(tables, state, x, v)
        out[4, x] = access.advance(tables, state, x)
    return out


@njit
def start(tables):
    return access.start(tables, 0.7)


@njit
def most_likely(tables, state):
    return access.most_likely(tables, state)


@njit
def mass(tables, state, alpha, beta):
    return access.mass(tables, state, alpha, beta)


@njit
def corrections(tables, state, alpha, beta, uniforms):
    out = np.empty(uniforms.size, np.int64)
    for i in range(uniforms.size):
        out[i] = access.correct(tables, state, alpha, beta, uniforms[i])
    return out


@njit
def drafts(tables, state, uniforms):
    out = np.empty(uniforms.size, np.int64)
    for i in range(uniforms.size):
        out[i] = access.draft(tables, state, uniforms[i])
    return out


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model = MODELS[request.param]
    tables = model_tables(model)
    return tables, naive.Pair.of(model, tables)


def test_tokens_of_every_row(case):
    tables, pair = case
    size, states = pair.vocab_size, len(pair.p) - 1
    assert start(tables) == pair.context(())
    for s, (p, q) in enumerate(zip(pair.p, pair.q, strict=True)):
        ratio, prob, by_ratio, by_index, after = every_token(tables, s, 0.25)
        due = [0 if a == 0 else math.inf if b == 0 else a / b for a, b in zip(p, q, strict=True)]
        np.testing.assert_array_equal(ratio, due)
        np.testing.assert_array_equal(prob, p)
        np.testing.assert_array_equal(after, np.arange(size) % states)
        order = naive.ratio_order(p, q)
        for x in range(size):
            below = sum(p[y] for y in order[: order.index(x)])
            assert by_ratio[x] == pytest.approx(below + p[x] / 4, abs=1e-14)
            assert by_index[x] == pytest.approx(sum(p[:x]) + p[x] / 4, abs=1e-14)
        assert most_likely(tables, s) == p.index(max(p))


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_mass_and_corrections(case, alpha, beta):
    tables, pair = case
    for s, (p, q) in enumerate(zip(pair.p, pair.q, strict=True)):
        weights = naive.excess(naive.scaled(alpha, p), naive.scaled(beta, q))
        total = math.fsum(weights)
        # The tables subtract two sums, so the error is relative to those.
        assert mass(tables, s, alpha, beta) == pytest.approx(total, abs=1e-13 * (alpha + beta))
        if total < 1e-9 * (alpha + beta):
            continue
        got = corrections(tables, s, alpha, beta, UNIFORMS)
        order = naive.ratio_order(p, q)
        assert got.tolist() == [naive.draw_inverse(weights, order, u) for u in UNIFORMS]
        assert all(weights[x] > 0 for x in got)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (1.0, 1.0), (1.7, 1.0), (0.7, 1.0)])
def test_corrections_at_the_edges_of_guide_cells(case, alpha, beta):
    """Where a table of u says where to look: off by one cell is off by one token."""
    tables, pair = case
    cells = [*(2**n for n in range(1, 12)), pair.vocab_size, 2 * pair.vocab_size]
    edges = np.unique(np.concatenate([np.arange(n) / n for n in cells]))
    uniforms = np.concatenate([edges, np.nextafter(edges, 1), np.nextafter(edges[1:], 0)])
    for s in range(0, len(pair.p), 1 + len(pair.p) // 8):
        p, q = pair.p[s], pair.q[s]
        weights = naive.excess(naive.scaled(alpha, p), naive.scaled(beta, q))
        if sum(weights) < 1e-9:
            continue
        order = naive.ratio_order(p, q)
        ends = dict(zip(order, np.cumsum([weights[x] for x in order]) / sum(weights), strict=True))
        got = corrections(tables, s, alpha, beta, uniforms)
        for u, x in zip(uniforms, got.tolist(), strict=True):
            assert weights[x] > 0
            # A uniform may fall on the edge between two tokens: rounding decides which.
            assert ends[x] - weights[x] / sum(weights) - 1e-12 <= u <= ends[x] + 1e-12


def test_no_mass_at_all_samples_the_target(case):
    tables, pair = case
    for s, (p, q) in enumerate(zip(pair.p, pair.q, strict=True)):
        got = corrections(tables, s, 0.0, 1.0, UNIFORMS)
        order = naive.ratio_order(p, q)
        assert got.tolist() == [naive.draw_inverse(p, order, u) for u in UNIFORMS]


def test_drafts_are_those_of_the_alias_tables(case):
    tables, pair = case
    for s, q in enumerate(pair.q):
        got = drafts(tables, s, UNIFORMS)
        due = [naive.draw_alias(pair.cut[s], pair.alias[s], u) for u in UNIFORMS]
        assert got.tolist() == due
        assert all(q[x] > 0 for x in got)


def test_mass_at_the_very_ratio_of_a_token():
    """The weight alpha/beta = q/p of one token: the guide's cells must not skip it."""
    model = markov(64)
    tables = model_tables(model)
    pair = naive.Pair.of(model)
    for s in range(0, 65, 4):
        p, q = pair.p[s], pair.q[s]
        for x in range(64):
            for alpha in (q[x] / p[x], np.nextafter(q[x] / p[x], 0), np.nextafter(q[x] / p[x], 9)):
                total = math.fsum(naive.excess(naive.scaled(alpha, p), q))
                assert mass(tables, s, alpha, 1.0) == pytest.approx(total, abs=1e-13 * (alpha + 1))
