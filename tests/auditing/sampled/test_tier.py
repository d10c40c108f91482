"""The sampled tier for any callable: right rules pass, wrong ones fail, budgets bind."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
from support.levels import at_night
from support.sampled_audits import INSTANCES, SMALL, audit, token

from simverify.auditing.sampled_runs import InstanceTables, SampledInstance
from simverify.auditing.sampled_tier import PILOT_SAMPLES_SHARE
from simverify.faults import CONTROLS, FAULTS
from simverify.models.base import compact, rational_markov, toy
from simverify.verifiers import VERIFIERS

# -- right rules ---------------------------------------------------------------------------


@pytest.mark.distribution
@pytest.mark.parametrize("name", at_night(["token", "block", "match", "greedy"], but=["block"]))
@pytest.mark.thorough
def test_the_projects_rules_pass(name):
    verifier = VERIFIERS[name]
    said = []
    result = audit(verifier.rule, verifier.contract, say=said.append)
    assert (result.verdict, result.reason, result.tier.findings) == ("PASS", None, ())
    assert result.tier.looks == 4
    assert result.tier.samples == sum(result.plan.samples)
    assert result.tier.detectable <= 0.03
    # The certificate is of all instances together, the coarse ones too.
    bounds = [x.bound / x.detect for x in result.tier.instances]
    assert 0 < min(bounds) <= max(bounds) < 4 / 3
    assert result.tier.certificate.bound == max(x.bound for x in result.tier.instances)
    assert said == [result.plan.line]
    assert "0.9" in result.plan.line


@pytest.mark.distribution
@pytest.mark.parametrize(
    "name",
    at_night(
        ["token-legacy-numpy", "token-random-module", "rescaled-uniform", "coupled-match"],
        but=["rescaled-uniform"],
    ),
)
@pytest.mark.thorough
def test_controls_pass(name):
    control = CONTROLS[name]
    assert audit(control.rule, control.contract).verdict == "PASS"


def test_a_target_of_temperature_zero_needs_no_counts():
    """Its rows are one-hot: the support test sees every deviation."""
    p = [[Fraction(x == y) for x in range(3)] for y in (2, 0, 1)]
    q = [[Fraction(1, 3)] * 3] * 3
    instances = (SampledInstance(rational_markov("one-hot", p[0], p, q[0], q), 2),)
    result = audit(VERIFIERS["temperature-0"].rule, instances=instances)
    assert result.verdict == "PASS"
    # So much off the support is seen once with power .9; a call emits one to three tokens.
    assert 1 / 3 < result.tier.detectable * result.tier.samples / np.log(10) < 1
    wrong = audit(lambda p, q, x, rng: [int(x[0])], instances=instances)
    assert "support, position 1: token" in wrong.tier.findings[0].text


# -- wrong rules ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "detect"),
    at_night(
        [
            ("target-residual", 0.05),
            ("inverted-ratio", 0.05),
            ("wrong-bonus-row", 0.05),
            ("reused-uniform", 0.05),
            ("scaled-acceptance(1.1)", 0.02),
            ("one-uniform", 0.05),
            ("naive-block-stealth", 0.02),
            ("seeded-per-call", 0.05),
            ("lenient(0.9)", 0.02),
            ("greedy-no-state", 0.02),
            ("repeated-stream", 0.05),
        ],
        # One of each part that may be wrong: residual, bonus, acceptance, randomness, state.
        but=[
            ("target-residual", 0.05),
            ("wrong-bonus-row", 0.05),
            ("scaled-acceptance(1.1)", 0.02),
            ("seeded-per-call", 0.05),
            ("greedy-no-state", 0.02),
        ],
    ),
)
@pytest.mark.thorough
def test_faults_fail(name, detect):
    """Small ones move a token's law by two in a hundred somewhere, the others by five and more."""
    fault = FAULTS[name]
    result = audit(fault.rule, fault.contract, detect=detect)
    assert result.verdict == "FAIL"
    assert any(test.rejected for test in result.tier.tests)
    assert result.tier.certificate is None


def test_a_lossy_rule_is_named_by_its_acceptance():
    """Everything is accepted: no rule may, and the optimum says so."""

    def greedy(target_probs, draft_probs, draft_tokens, rng):
        return [*draft_tokens, int(rng.choice(target_probs.shape[1], p=target_probs[-1]))]

    findings = audit(greedy).tier.findings
    assert any("lossy: Pr(tau >= " in finding.text for finding in findings)
    assert any("support" in finding.text for finding in findings)


class EverySecond:
    """The token rule; every second call is judged with the stream of the one before."""

    def __init__(self, phase):
        self.calls = phase

    def __call__(self, target_probs, draft_probs, draft_tokens, rng):
        stream = np.random.default_rng([8, self.calls // 2])
        self.calls += 1
        return token(target_probs, draft_probs, draft_tokens, stream)


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.thorough
def test_calls_that_share_a_stream_fail_by_the_pairs_alone(phase):
    result = audit(EverySecond(phase))
    assert result.verdict == "FAIL"
    assert all("consecutive calls" in finding.text for finding in result.tier.findings)


def batched(pick):
    """Token rule over a batch; row i of a call is judged with stream ``pick(i)``."""

    def verify(target_probs, draft_probs, draft_tokens, rng):
        seeds = rng.integers(1 << 62, size=len(draft_tokens))
        out = np.full((len(draft_tokens), draft_tokens.shape[1] + 1), -1)
        for i, rows in enumerate(zip(target_probs, draft_probs, draft_tokens, strict=True)):
            tokens = token(*rows, np.random.default_rng(seeds[pick(i)]))
            out[i, : len(tokens)] = tokens
        return out

    return verify


@pytest.mark.distribution
def test_a_batch_passes():
    result = audit(batched(lambda i: i), batch=8, instances=SMALL)
    assert (result.verdict, result.tier.findings) == ("PASS", ())
    assert any("batch rows 4 apart" in test.name for test in result.tier.tests)


@pytest.mark.parametrize(("pick", "lag"), [(lambda i: i // 2 * 2, 1), (lambda i: i % 4, 4)])
def test_rows_that_share_a_stream_fail_by_their_lag(pick, lag):
    result = audit(batched(pick), batch=8, instances=SMALL)
    assert result.verdict == "FAIL"
    assert all(f"batch rows {lag} apart" in finding.text for finding in result.tier.findings)


def test_a_batch_of_more_trials_than_are_needed_is_enough():
    result = audit(batched(lambda i: i), batch=4096, instances=SMALL, detect=0.3)
    assert (result.verdict, result.reason) == ("PASS", None)


# -- optimality, apart ---------------------------------------------------------------------


@pytest.mark.distribution
def test_optimality_is_told_apart_from_the_verdict():
    found = audit(token, instances=(SampledInstance(compact(), 3),))
    assert found.verdict == "PASS"
    assert "below the optimum 1.9306 (block); as token" in found.tier.optimality


# -- budgets -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_too_small_a_budget_is_inconclusive():
    result = audit(token, samples=8000)
    assert result.verdict == "INCONCLUSIVE"
    assert "the calls on compact, gamma=3 promise a TV of 0." in result.reason
    assert "not 0.03: raise max_samples" in result.reason
    # The pilots take their part of the budget.
    assert 1000 < result.tier.samples <= 8000 * (1 - PILOT_SAMPLES_SHARE)
    assert result.tier.certificate is None
    assert audit(token, samples=500).verdict == "INCONCLUSIVE"
    # A gross fault is found all the same.
    assert audit(FAULTS["inverted-ratio"].rule, samples=8000).verdict == "FAIL"


def test_the_clock_only_makes_it_inconclusive():
    def slow(*arguments):
        time.sleep(0.02)
        return token(*arguments)

    result = audit(slow, seconds=0.5)
    assert (result.verdict, result.tier.findings) == ("INCONCLUSIVE", ())
    assert "time limit" in result.reason


def test_same_seed_same_result():
    first, second = (audit(token, instances=SMALL, detect=0.1) for _ in range(2))
    assert first.tier == second.tier


# -- tables --------------------------------------------------------------------------------


def test_curves_are_the_exact_fractions():
    """docs/explanation/statistics.md, facts that the code leans on."""
    tables = InstanceTables(SampledInstance(compact(), 3), 4)
    assert tables.curve(VERIFIERS["token"]).sum() == pytest.approx(379 / 216, abs=1e-12)
    assert tables.curve(VERIFIERS["block"]).sum() == pytest.approx(139 / 72, abs=1e-12)
    tables = InstanceTables(SampledInstance(toy(), 2), 3)
    assert tables.curve(VERIFIERS["block"]).sum() == pytest.approx(11 / 9, abs=1e-12)


def test_blocks_and_joint_laws_follow_the_model():
    instance = INSTANCES[1]
    model, gamma = instance.model, instance.gamma
    tables = InstanceTables(instance, gamma + 1)
    target, draft, given = tables.blocks
    assert (given == target).all()
    law = tables.joint(gamma + 1)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    for number, block in enumerate(itertools.product(range(4), repeat=gamma)):
        assert tables.codes(np.array([block]), gamma)[0] == number
        for i in range(gamma + 1):
            assert (target[number, i] == model.target(block[:i])).all()
        for i in range(gamma):
            assert (draft[number, i] == model.draft(block[:i])).all()
        mass = np.prod([model.target(block[:i])[block[i]] for i in range(gamma)])
        assert law[4 * number : 4 * number + 4] == pytest.approx(mass * model.target(block))
