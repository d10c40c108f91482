"""Comparisons on models of every kind: n-grams, large laws, tiny and equal rows."""

import hashlib
import json

import numpy as np
import pytest
from support.false_alarms import ALPHA

import simverify
from simverify.auditing.sampled_runs import SampledInstance
from simverify.auditing.sampled_tier import sample_callable
from simverify.models import MarkovModel, ngram
from simverify.models.ngram import corpus_text
from simverify.verifiers import VERIFIERS

BLOCKS = 100_000
RULES = ["token", "block", "greedy", "match"]


def row(run, model, verifier):
    (found,) = [r for r in run.results if (r.model, r.verifier) == (model, verifier)]
    return found


@pytest.fixture(scope="module")
def ngram_run(tmp_path_factory):
    text = corpus_text()[:100_000]
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path_factory.mktemp("ngram")))
        patch.setattr(ngram, "corpus_text", lambda: text)
        run = simverify.compare(
            ["ngram"],
            ["token", "block", "greedy"],
            gamma=2,
            blocks=5000,
            alpha=ALPHA,
            progress=said.append,
        )
    return text, said, run


@pytest.mark.distribution
def test_ngram_runs_from_training_to_the_verdict(ngram_run):
    text, said, run = ngram_run
    assert said[0].startswith("training ngram on 0.1 MB")
    (info,) = run.models
    assert info.vocab_size == 256
    assert info.corpus_sha256 == hashlib.sha256(text).hexdigest()
    assert 1 < info.target_perplexity < info.draft_perplexity < 256
    token, block, greedy = run.results
    assert run.verdict == "INCONCLUSIVE"
    for r in run.results:
        expected = r.expected_accepted
        assert expected.exact is None
        assert expected.method == "rao-blackwell"
        assert 0 < expected.lower < expected.upper < 2
        assert expected.confidence == 0.999
        assert not r.lossless.findings
        assert any("q/p order" in test.name for test in r.lossless.tests)
        assert any("token order" in test.name for test in r.lossless.tests)
    assert token.block_efficiency < block.block_efficiency <= greedy.block_efficiency


@pytest.mark.thorough
def test_bounds_enclose_where_the_law_is_too_large():
    run = simverify.compare(["markov-16"], ["block", "greedy"], gamma=8, blocks=1000)
    for r in run.results:
        expected = r.expected_accepted
        assert expected.method == "dp"
        assert 0 < expected.upper - expected.lower < 1e-3
        middle = (expected.lower + expected.upper) / 2
        assert r.block_efficiency == pytest.approx(middle + 1)


@pytest.mark.parametrize("model", ["markov-3", "markov-5"])
def test_a_draft_that_is_the_target_is_accepted_whole(model):
    run = simverify.compare(
        [model], ["token", "block", "greedy"], gamma=4, blocks=20_000, draft_distance=0.0
    )
    for row in run.results:
        assert row.measured.mean == 4
        assert not row.lossless.findings


@pytest.mark.distribution
@pytest.mark.parametrize("tiny", [1e-9, 1e-300])
def test_a_tiny_probability_beside_a_large_one_costs_no_verdict(tmp_path, tiny):
    rows = [[tiny, 0.1, 0.9 - tiny]] * 3
    draft = [[0.2, 0.3, 0.5]] * 3
    sides = {"target": rows, "draft": draft}
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({k: {"start": v[0], "rows": v} for k, v in sides.items()}))
    run = simverify.compare([str(path)], ["token"], gamma=2, blocks=200_000, alpha=ALPHA)
    assert run.verdict == "PASS"


def test_a_run_is_long_enough_where_contexts_are_rarely_reached():
    """Sample-and-match keeps few drafts: its later slots differ most from what a pilot showed."""
    run = simverify.compare(["markov-64"], ["match"], gamma=8)
    assert 0.9 * run.detect < run.results[0].lossless.detectable < 0.98 * run.detect
    assert run.verdict == "PASS"


# Targets that are their draft truncated to its top k, the commonest serving set-up: PASS.


def truncated(vocab, k, seed):
    """Target and draft rows (1 + V, V), the start first: top k of the draft, renormalised."""
    drafts = np.random.default_rng([501, vocab, seed]).dirichlet(np.ones(vocab), vocab + 1)
    kept = np.where(np.argsort(np.argsort(-drafts, axis=1), axis=1) < k, drafts, 0.0)
    return kept / kept.sum(axis=1, keepdims=True), drafts


def instances():
    yield "example", *(np.tile(row, (4, 1)) for row in ([3 / 5, 2 / 5, 0], [1 / 2, 1 / 3, 1 / 6]))
    for vocab, every in (3, 1), (5, 1), (8, 3):
        for k in range(1, vocab, every):
            yield f"top {k} of {vocab}", *truncated(vocab, k, k)
    half = np.array([0.25, 0.75, 0, 0]), np.array([0, 0, 0.5, 0.5])
    yield "disjoint", *(np.tile(row, (5, 1)) for row in half)


INSTANCES = {name: rows for name, *rows in instances()}


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_comparison_of_truncated_targets_passes(tmp_path):
    files = []
    for name, (p, q) in INSTANCES.items():
        pair = {
            side: {"start": rows[0].tolist(), "rows": rows[1:].tolist()}
            for side, rows in (("target", p), ("draft", q))
        }
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps({"name": name, **pair}))
    run = simverify.compare(
        [str(path) for path in files],
        ["token", "block", "greedy"],
        gamma=2,
        alpha=ALPHA,
    )
    assert {row.lossless.verdict for row in run.results} == {"PASS"}
    assert len(run.results) == 3 * len(INSTANCES)


def audited(rule, p, q):
    model = MarkovModel("truncated", p[0], p[1:], q[0], q[1:])
    return sample_callable(
        rule, "verify", instances=(SampledInstance(model, 2),), seed=7, alpha=ALPHA, detect=0.1
    )


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["example", "top 1 of 3", "top 2 of 3", "disjoint"])
def test_the_sampled_tier_passes_on_truncated_targets(name):
    assert audited(VERIFIERS["token"].rule, *INSTANCES[name]).tier.findings == ()


def sharpened(target_probs, draft_probs, draft_tokens, rng):
    """Reject every draft, and draw from the squares: wrong, on the target's support alone."""
    row = target_probs[0] ** 2
    return [int(rng.choice(len(row), p=row / row.sum()))]


@pytest.mark.parametrize("name", ["example", "top 2 of 3", "disjoint"])
def test_a_fault_on_truncated_targets_fails(name):
    """Negative control, by likelihood ratios and counts; no support is violated."""
    found = audited(sharpened, *INSTANCES[name])
    assert found.verdict == "FAIL"
    assert not any("support" in finding.text for finding in found.tier.findings)
