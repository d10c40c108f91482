"""Targets that are their draft truncated to its top k, the commonest serving set-up: PASS."""

import json

import numpy as np
import pytest
from support.false_alarms import ALPHA

import simverify
from simverify.auditing.sampled.tables import SampledInstance
from simverify.auditing.sampled.tier import sample_callable
from simverify.models import MarkovModel
from simverify.verifiers import VERIFIERS


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
