"""Tokens that know more of the past than their rows do: found, where their contexts see nothing."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.false_alarms import ALPHA
from support.kernel_trials import shares, trial

from simverify import stats
from simverify.comparing import sampled
from simverify.comparing.documents import CURVE_STEPS, pit_curves
from simverify.comparing.sampled import (
    MAX_PAIRED_TOKENS,
    lag_tests,
    order_two_tests,
    ratio_order_pits,
)
from simverify.models import get_model
from simverify.models.base import MarkovModel
from simverify.simulators.run import TokenSample

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
    return TokenSample(states, tokens, np.zeros(n, np.int64), rng.random(n))


@pytest.fixture(scope="module")
def run():
    """One row for all contexts, that of four tokens alike."""
    row, rng = np.full(4, 0.25), np.random.default_rng(402)
    drafts = rng.dirichlet(np.ones(4), 5)
    model = MarkovModel("flat", row, np.tile(row, (4, 1)), drafts[0], drafts[1:])
    return trial(model, "token", gamma=3)


def rejected(run, sample):
    tests = list(lag_tests(ratio_order_pits(sample, run.rows, run.draft_rows), ALPHA))
    assert len(tests) == 4
    return {test.name for test in tests if test.rejected}


@pytest.mark.distribution
def test_fresh_uniforms_pass(run):
    assert rejected(run, generation(run, MAX_PAIRED_TOKENS, lag=2, share=0.0)) == set()


@pytest.mark.parametrize("share", [0.3, 0.15])
def test_a_hidden_lag_of_two_is_found_where_counts_by_context_see_none(run, share):
    sample = generation(run, MAX_PAIRED_TOKENS, lag=2, share=share)
    assert any("2 apart" in name for name in rejected(run, sample))
    counts = np.zeros(run.rows.shape, np.int64)
    np.add.at(counts, (sample.states, sample.tokens), 1)
    test = stats.g2_test(stats.transition_g2(counts, run.rows), alpha=ALPHA)
    assert test.log_pvalue > math.log(1e-3)


def test_a_stream_that_repeats_at_once_is_found(run):
    sample = generation(run, MAX_PAIRED_TOKENS, lag=1, share=0.3)
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
    assert sampled.judge_contexts(run, counts, shares(ALPHA)).findings == ()
    wrong = generation(run, MAX_PAIRED_TOKENS, lag=2, share=0.3)
    monkeypatch.setattr(type(run), "sample", lambda *_: wrong)
    found = sampled.judge_contexts(run, counts, shares(ALPHA))
    (words,) = found.findings
    assert words.startswith("tokens")
    assert found.located is not None
    assert found.located.part == "random stream"


def test_a_short_run_has_too_few_pairs_to_test(run):
    assert list(lag_tests(np.full(100, 0.5), ALPHA)) == []


BINS = 1 << 12


def histogram(*positions):
    return np.array([[np.bincount(bins, minlength=BINS) for bins in positions]] * 2)


def test_a_uniform_histogram_has_no_differences():
    first, second = pit_curves(histogram(np.arange(BINS), np.arange(BINS)))
    assert (first.order, second.order) == ("q/p order", "token order")
    assert first.n == 2 * BINS
    assert first.differences == (0.0,) * (CURVE_STEPS + 1)


def test_positions_are_put_together_and_differences_are_those_of_the_distribution_function():
    lower_half = np.arange(BINS // 2)
    curve, _ = pit_curves(histogram(lower_half, np.arange(BINS)))
    u = np.linspace(0, 1, CURVE_STEPS + 1)
    expected = (np.minimum(2 * u, 1) + 2 * u) / 3 - u
    np.testing.assert_allclose(curve.differences, expected, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 0, BINS), (2, 3, BINS)])
def test_no_tokens_make_no_curve(shape):
    assert pit_curves(np.zeros(shape, dtype=np.int64)) == ()


def leaves(draw, n, runs):
    """Number of runs whose curve leaves its band somewhere."""
    total = 0
    for _ in range(runs):
        curve, _ = pit_curves(histogram((draw(n) * BINS).astype(int)))
        total += max(map(abs, curve.differences)) > curve.band
    return total


@pytest.mark.distribution
def test_the_band_holds_as_often_as_it_says():
    rng = np.random.default_rng(20260)
    runs = 3000
    assert scipy_stats.binom.sf(leaves(rng.random, 2000, runs) - 1, runs, 1e-3) > ALPHA
    # The wrong law: q/p order is left of uniform by a TV of .07.
    assert leaves(lambda n: rng.beta(1.0, 1.2, n), 2000, 100) > 50
