"""The compiled access functions against numpy on the model's own rows."""

import numpy as np
import pytest
from numba import njit

from simverify.models.ngram import corpus_text, train_ngram
from simverify.simulators import run
from simverify.simulators.kernels import access
from simverify.simulators.run import ngram_tables

LAWS = [(1.0, 0.0), (1.0, 1.0), (0.3, 1.0), (2.5, 1.0), (40.0, 1.0), (0.9, 2.0), (7.0, 3.0)]
ULP = 2.0**-53
GRID = 2**16


@njit
def walk(tables, u, path):
    state = access.start(tables, u)
    for token in path:
        state = access.advance(tables, state, token)
    return state


@njit
def every_token(tables, state, v):
    out = np.empty((4, 256))
    for x in range(256):
        out[0, x] = access.ratio(tables, state, x)
        out[1, x] = access.target_prob(tables, state, x)
        out[2, x], out[3, x] = access.pits(tables, state, x, v)
    return out


@njit
def mass(tables, state, alpha, beta):
    return access.mass(tables, state, alpha, beta)


@njit
def most_likely(tables, state):
    return access.most_likely(tables, state)


@njit
def drafts(tables, state, uniforms):
    counts = np.zeros(256, np.int64)
    for u in uniforms:
        counts[access.draft(tables, state, u)] += 1
    return counts


@njit
def corrections(tables, state, alpha, beta, uniforms):
    counts = np.zeros(256, np.int64)
    for u in uniforms:
        counts[access.correct(tables, state, alpha, beta, u)] += 1
    return counts


@pytest.fixture(scope="module")
def model():
    return train_ngram(corpus_text()[:100_000])


@pytest.fixture(scope="module")
def tables(model):
    return ngram_tables(model)


@pytest.fixture(scope="module")
def visits(model, tables):
    """(state, context) pairs: text, text that goes on as the draft does, and noise."""
    rng = np.random.default_rng(1)
    visits = []
    for kind in range(90):
        i = int(rng.integers(len(model.contexts)))
        context = model.contexts[i].tolist()
        path = []
        for _ in range(kind % 10):
            row = model.draft(context) if kind % 3 else np.full(256, 1 / 256)
            path.append(int(rng.choice(256, p=row)))
            context.append(path[-1])
        u = (i + 0.5) / len(model.contexts)
        visits.append((walk(tables, u, np.array(path, np.int64)), context))
    return visits


def test_visits_cover_every_back_off(visits):
    nodes = {(bool(s >> 39), bool(s >> 17 & 2**22 - 1)) for s, _ in visits}
    assert nodes == {(True, True), (False, True), (False, False)}


def test_start_takes_the_context_the_uniform_names(model, tables):
    n = len(model.contexts)
    empty = np.empty(0, np.int64)
    for i in (0, 1, n // 2, n - 1):
        state = walk(tables, (i + 0.5) / n, empty)
        row = every_token(tables, state, 0.0)[1]
        np.testing.assert_allclose(row, model.target(model.contexts[i]), rtol=1e-9)
    assert walk(tables, 1 - ULP, empty) == walk(tables, (n - 0.5) / n, empty)


def test_equal_contexts_are_equal_states(model, tables):
    n = len(model.contexts)
    for i in (5, 700, 2_000):
        path = model.contexts[i].astype(np.int64)
        assert walk(tables, 0.3, path) == walk(tables, (i + 0.5) / n, path[:0])


def test_ratio_and_target_probability(model, tables, visits):
    for state, context in visits:
        ratio, prob, _, _ = every_token(tables, state, 0.0)
        p, q = model.target(context), model.draft(context)
        np.testing.assert_allclose(ratio, p / q, rtol=1e-9)
        np.testing.assert_allclose(prob, p, rtol=1e-9)


@pytest.mark.parametrize(("alpha", "beta"), [*LAWS, (0.0, 1.0), (0.0, 0.0)])
def test_mass(model, tables, visits, alpha, beta):
    for state, context in visits:
        law = np.maximum(alpha * model.target(context) - beta * model.draft(context), 0)
        assert mass(tables, state, alpha, beta) == pytest.approx(law.sum(), rel=1e-9, abs=1e-13)


def test_most_likely(model, tables, visits):
    for state, context in visits:
        p = model.target(context)
        best = most_likely(tables, state)
        assert p[best] >= p.max() * (1 - 1e-12)
        assert not (p[:best] > p[best] * (1 + 1e-12)).any()


@pytest.mark.parametrize(("by_ratio", "row"), [(True, 2), (False, 3)])
def test_pit(model, tables, visits, by_ratio, row):
    for state, context in visits:
        p, q = model.target(context), model.draft(context)
        # Tokens that tie exactly differ by rounding here: ties are settled at 9 digits.
        key = np.array([float(f"{x:.9e}") for x in q / p]) if by_ratio else np.zeros(256)
        order = np.lexsort((np.arange(256), key))
        expected = np.empty(256)
        expected[order] = np.cumsum(p[order]) - 0.75 * p[order]
        np.testing.assert_allclose(every_token(tables, state, 0.25)[row], expected, atol=1e-12)


def test_pit_of_the_two_orders_differ(tables, visits):
    state = visits[0][0]
    _, _, by_ratio, by_id = every_token(tables, state, 0.25)
    assert np.abs(by_id - by_ratio).max() > 0.1


def alias_law(tables):
    cells = tables.alias
    cut = (cells >> np.uint64(8)) / 2.0**45
    law = cut.copy()
    rows = np.arange(len(cells))
    for column in range(256):
        np.add.at(law, (rows, cells[:, column] & np.uint64(255)), 1 - cut[:, column])
    return law / 256


def test_draft_law_is_the_models_row(model, tables, visits):
    """Exactly through the alias cells, and through draws at the midpoints of a grid."""
    law = alias_law(tables)
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-12)
    uniforms = (np.arange(GRID) + 0.5) / GRID
    for state, context in visits:
        q = model.draft(context)
        np.testing.assert_allclose(law[state & 2**17 - 1], q, atol=1e-14)
        # A token lies in at most 256 columns, each wrong by at most one point.
        assert np.abs(drafts(tables, state, uniforms) / GRID - q).max() < 257 / GRID


def test_a_wrong_draft_law_is_seen(model, tables, visits):
    (state, context), (_, other) = visits[0], visits[1]
    law = alias_law(tables)[state & 2**17 - 1]
    assert np.abs(law - model.draft(context)).max() < 1e-14
    assert np.abs(law - model.draft(other)).max() > 0.01
    uniforms = (np.arange(GRID) + 0.5) / GRID
    assert np.abs(drafts(tables, state, uniforms) / GRID - model.draft(other)).max() > 257 / GRID


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_correct_draws_the_law(model, tables, visits, alpha, beta):
    uniforms = (np.arange(GRID) + 0.5) / GRID
    for state, context in visits[:30]:
        p, q = model.target(context), model.draft(context)
        law = np.maximum(alpha * p - beta * q, 0)
        if law.sum() < 1e-12:  # p = q up to rounding: the target row is asked for
            law = p
        share = corrections(tables, state, alpha, beta, uniforms) / GRID
        law /= law.sum()
        # A follower has up to two intervals; the draft's share of the law is an alias table.
        smallest = (p / q).min() * alpha - beta
        points = 260 if smallest > 1e-12 or law is p else 3
        assert np.abs(share - law).max() <= points / GRID


def test_correct_tells_laws_apart(model, tables, visits):
    uniforms = (np.arange(GRID) + 0.5) / GRID
    state, context = visits[0]
    law = np.maximum(model.target(context) - model.draft(context), 0)
    law /= law.sum()
    assert np.abs(corrections(tables, state, 1.0, 1.0, uniforms) / GRID - law).max() <= 3 / GRID
    assert np.abs(corrections(tables, state, 1.0, 0.0, uniforms) / GRID - law).max() > 0.01


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
@pytest.mark.parametrize("u", [0.0, 0.5, 1 - ULP])
def test_correct_never_draws_weight_zero(model, tables, visits, alpha, beta, u):
    for state, context in visits:
        law = alpha * model.target(context) - beta * model.draft(context)
        if (law > 1e-12).any():
            token = corrections(tables, state, alpha, beta, np.array([u])).argmax()
            assert law[token] > 0


def test_no_mass_samples_the_target(model, tables, visits):
    uniforms = (np.arange(GRID) + 0.5) / GRID
    for state, context in visits[:10]:
        assert mass(tables, state, 1e-9, 1.0) == 0.0
        share = corrections(tables, state, 1e-9, 1.0, uniforms) / GRID
        assert np.abs(share - model.target(context)).max() <= 260 / GRID


def test_too_many_contexts_are_refused(model, monkeypatch):
    monkeypatch.setattr(run, "NODE4_BITS", 10)
    with pytest.raises(ValueError, match="contexts of 4 bytes and a state tells 767 apart"):
        ngram_tables(model)
