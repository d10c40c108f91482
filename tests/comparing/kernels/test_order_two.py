"""Tokens that know more of the past than their rows do: found, where their contexts see nothing."""

import math

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.kernel_trials import shares, trial

from simverify import stats
from simverify.comparing.kernels import contexts
from simverify.comparing.kernels.contexts import PAIRED, lag_tests, order_two_tests, pits_of
from simverify.models import get_model
from simverify.models.base import MarkovModel
from simverify.simulators.streamed import Sample

RULES = ["token", "block", "greedy", "match"]


def generation(run, n, *, lag, share, seed=401):
    """Tokens of one long generation whose uniforms repeat those ``lag`` before, now and then.

    Each uniform is fresh or, with probability ``share``, the one drawn ``lag`` tokens ago. Where
    all rows are one, every token follows it; where the lag is 2, every pair of neighbours too.
    """
    rng = np.random.default_rng(seed)
    draws, again = rng.random(n), rng.random(n) < share
    for i in range(lag, n):
        if again[i]:
            draws[i] = draws[i - lag]
    states, tokens = np.empty(n, np.int64), np.empty(n, np.int64)
    state, cdf = len(run.rows) - 1, np.cumsum(run.rows, axis=1)
    for i, u in enumerate(draws):
        states[i] = state
        tokens[i] = state = min(int(np.searchsorted(cdf[state], u, side="right")), cdf.shape[1] - 1)
    return Sample(states, tokens, np.zeros(n, np.int64), rng.random(n))


@pytest.fixture(scope="module")
def run():
    """One row for all contexts, that of four tokens alike."""
    row, rng = np.full(4, 0.25), np.random.default_rng(402)
    drafts = rng.dirichlet(np.ones(4), 5)
    model = MarkovModel("flat", row, np.tile(row, (4, 1)), drafts[0], drafts[1:])
    return trial(model, "token", gamma=3)


def rejected(run, sample):
    tests = list(lag_tests(pits_of(sample, run.rows, run.draft_rows), ALPHA))
    assert len(tests) == 4
    return {test.name for test in tests if test.rejected}


@pytest.mark.distribution
def test_fresh_uniforms_pass(run):
    assert rejected(run, generation(run, PAIRED, lag=2, share=0.0)) == set()


@pytest.mark.parametrize("share", [0.3, 0.15])
def test_a_hidden_lag_of_two_is_found_where_counts_by_context_see_none(run, share):
    sample = generation(run, PAIRED, lag=2, share=share)
    assert any("2 apart" in name for name in rejected(run, sample))
    counts = np.zeros(run.rows.shape, np.int64)
    np.add.at(counts, (sample.states, sample.tokens), 1)
    test = stats.g2_test(stats.transition_g2(counts, run.rows), alpha=ALPHA)
    assert test.log_pvalue > math.log(1e-3)


def test_a_stream_that_repeats_at_once_is_found(run):
    sample = generation(run, PAIRED, lag=1, share=0.3)
    assert any("in a row" in name for name in rejected(run, sample))


@pytest.mark.distribution
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model", ["toy", "markov-64"])
def test_the_kernels_tokens_know_nothing(model, rule):
    own = trial(get_model(model), rule, gamma=4)
    tests = list(order_two_tests(own, 100_000, ALPHA))
    assert len(tests) == 4
    assert all(not test.rejected for test in tests)


def test_a_kernel_fails_by_it_alone_and_is_located(run, monkeypatch):
    """The verdict of the whole battery, on a kernel whose counts are right."""
    counts = run.run(50_000)
    assert contexts.judge_contexts(run, counts, shares(ALPHA)).findings == ()
    wrong = generation(run, PAIRED, lag=2, share=0.3)
    monkeypatch.setattr(type(run), "sample", lambda *_: wrong)
    found = contexts.judge_contexts(run, counts, shares(ALPHA))
    (words,) = found.findings
    assert words.startswith("tokens")
    assert found.located is not None
    assert found.located.part == "random stream"


def test_a_short_run_has_too_few_pairs_to_test(run):
    assert list(lag_tests(np.full(100, 0.5), ALPHA)) == []
