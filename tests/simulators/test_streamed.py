"""The first tokens of a run are those that it counted, each with its model's own rows."""

from itertools import pairwise

import numpy as np
import pytest

from simverify import stats
from simverify.models.corpus import corpus_text
from simverify.models.markov import markov
from simverify.models.ngram import train
from simverify.simulators import streamed as module
from simverify.simulators.features import features
from simverify.simulators.run import PIT_BINS, simulate
from simverify.simulators.streamed import Rows, pits_and_ratios, sample, sample_features
from simverify.simulators.tables import model_tables

GAMMA, TRIALS = 3, 300
SHAPES = {"token": (1, GAMMA + 1), "match": (1, GAMMA + 1), "greedy": (2 * GAMMA, 2 * GAMMA)}
"""Calls and positions of a trial."""


@pytest.fixture(scope="module", params=["markov", "ngram"])
def model(request):
    return markov(70) if request.param == "markov" else train(corpus_text()[:100_000])


@pytest.fixture(scope="module")
def tables(model):
    return model_tables(model)


def taken(tables, rule, n):
    calls, positions = SHAPES[rule]
    return sample(tables, rule, GAMMA, n, seed=7, calls=calls, positions=positions)


def counted(tables, rule):
    calls, positions = SHAPES[rule]
    return simulate(
        tables, rule, GAMMA, TRIALS, seed=7, threads=2, calls=calls, pit_positions=positions
    )


@pytest.mark.parametrize("rule", SHAPES)
def test_they_have_the_pits_that_the_run_counts(model, tables, rule):
    """State, token, position and uniform of every token, or the histograms would differ."""
    counts = counted(tables, rule)
    n = int(counts.pits[0].sum())
    found = taken(tables, rule, n)
    pits, _ = pits_and_ratios(found, Rows.of(model, tables), np.ones(n, bool))
    # Tokens of one q/p but for rounding, as n-grams have them, may be ordered by it.
    for order in (0, 1) if model.name == "markov-70" else (1,):
        for position in range(SHAPES[rule][1]):
            bins = (pits[order, found.positions == position] * PIT_BINS).astype(int)
            due = counts.pits[order, position]
            # An edge of a bin may be an ulp away.
            moved = np.cumsum(np.bincount(bins, minlength=PIT_BINS) - due)
            assert moved[-1] == 0
            assert np.abs(moved).max() <= 1
            assert (moved != 0).sum() <= 2


def test_tokens_of_another_rule_have_other_pits(model, tables):
    """Negative control of the test above."""
    n = int(counted(tables, "token").pits[0].sum())
    found = taken(tables, "match", n)
    pits, _ = pits_and_ratios(found, Rows.of(model, tables), np.ones(n, bool))
    bins = (pits[0, found.positions == 0] * PIT_BINS).astype(int)
    moved = np.bincount(bins, minlength=PIT_BINS) - counted(tables, "token").pits[0, 0]
    assert np.abs(moved).sum() > 100


def test_the_order_is_of_trials_and_positions_and_cut_where_it_is_full(tables, monkeypatch):
    whole = taken(tables, "token", 500)
    assert len(whole.tokens) == 500
    assert whole.positions[0] == 0
    assert all(b in (0, a + 1) for a, b in pairwise(whole.positions))
    monkeypatch.setattr(module, "_CHUNK", 50)
    for n in (1, 2, 499):
        part = taken(tables, "token", n)
        for name in ("states", "tokens", "positions", "uniforms"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:n])


def test_generations_fill_their_positions(tables):
    found = taken(tables, "greedy", 60)
    np.testing.assert_array_equal(found.positions, np.tile(np.arange(6), 10))


def test_rows_are_laws_and_the_states_own(model, tables):
    found = taken(tables, "token", 400)
    p, q = Rows.of(model, tables).lookup(found.states)
    for rows in (p, q):
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
    starts = found.positions == 0
    if model.name.startswith("markov"):
        np.testing.assert_array_equal(p[starts][0], model.target_start)
        after = np.flatnonzero(~starts)
        np.testing.assert_array_equal(q[after[0]], model.draft([found.tokens[after[0] - 1]]))
        return
    # Which contexts they are is the PITs' business; that rows fit states is theirs.
    index = np.unique(model.contexts, axis=0)
    seen = {tuple(np.round(row, 12)) for row in p[starts]}
    due = {tuple(np.round(model.target(context), 12)) for context in index}
    assert seen <= due


def test_batches_add_up_to_the_features_of_all(model, tables, monkeypatch):
    found, rows = taken(tables, "token", 301), Rows.of(model, tables)
    judged = found.positions < GAMMA
    p, q = rows.lookup(found.states)
    whole = features(p, q, found.tokens, found.uniforms, judged=judged, follows=np.ones(301, bool))
    monkeypatch.setattr(module, "_ENTRIES", 100 * model.vocab_size)
    parts = sample_features(found, rows, judged, 1)
    np.testing.assert_array_equal(parts.pits, whole.pits)
    np.testing.assert_allclose(parts.ratios.log_evalues, whole.ratios.log_evalues, rtol=1e-9)
    # A batch's first token has no partner.
    assert (whole.pairs.n, parts.pairs.n) == (300, 297)
    assert stats.pit_ks(parts.pits[2], alpha=0.5).n == 301
