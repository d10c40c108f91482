"""How often a whole audit, and a whole comparison, of right code says FAIL: alpha at most.

Run many times at an alpha so large that the rate can be counted. A bound of the binomial law says
how many FAILs that allows; wrong code, which beats the bound, says that the count can show them.
"""

import importlib

import numpy as np
import pytest
from scipy import stats as laws
from support.false_alarms import ALPHA

import simverify
from simverify.auditing import sampled_tier
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.verifiers import VERIFIERS

RAISED = 0.2
RUNS, CONTROLS, COMPARISONS, BLOCKS = 40, 24, 100, 20_000

token = VERIFIERS["token"].rule


def most_fails(runs):
    """How many of so many runs may FAIL, each with probability ``RAISED``, but for ``ALPHA``."""
    return int(laws.binom.isf(ALPHA, runs, RAISED))


def lenient(by):
    """Token verification that takes a ratio for larger than it is; nothing follows its draws."""

    def verify(p, q, x, rng):
        coins = np.random.default_rng(list(rng.bytes(16)))
        return token(p, q * (1.0 - by), x, coins)

    return verify


def audits(rule, runs):
    """The verdicts of whole audits with as many seeds."""
    for seed in range(runs):
        settings = AuditSettings(gamma=2, vocab=3, seed=seed, alpha=RAISED, detect=0.1)
        run = audit(Subject("coins.py:verify", rule, "verify"), "verify", settings)
        assert run.tier == "sampled"
        yield run.verdict


@pytest.mark.distribution
@pytest.mark.slow
@pytest.mark.parametrize("looks_early", [False, True])
def test_whole_audits_of_right_code_fail_with_probability_alpha_at_most(monkeypatch, looks_early):
    if looks_early:
        monkeypatch.setattr(sampled_tier, "SLOW_CALL_SECONDS", 0.0)
    assert list(audits(lenient(0.0), RUNS)).count("FAIL") <= most_fails(RUNS)


@pytest.mark.slow
def test_whole_audits_of_code_that_is_a_little_wrong_fail_more_often():
    assert list(audits(lenient(0.2), CONTROLS)).count("FAIL") > most_fails(CONTROLS)


def comparisons(model, verifier, runs, **options):
    """The verdicts of whole comparisons with as many seeds."""
    options |= {"models": [model], "verifiers": [verifier], "gamma": 2, "alpha": RAISED}
    for seed in range(runs):
        yield simverify.compare(seed=seed, **options).verdict


@pytest.mark.distribution
@pytest.mark.slow
def test_whole_comparisons_of_right_rules_fail_with_probability_alpha_at_most():
    found = list(comparisons("compact", "block", COMPARISONS, blocks=BLOCKS, detect=0.05))
    assert found.count("FAIL") <= most_fails(COMPARISONS)


@pytest.mark.slow
def test_whole_comparisons_of_a_rule_that_is_a_little_wrong_fail_more_often(monkeypatch):
    # A child for each of many runs adds nothing but time.
    module = importlib.import_module("simverify.api.compare")
    monkeypatch.setattr(module, "run_in_child", lambda work, say: work(say))
    found = list(comparisons("toy", "scaled-acceptance(1.1)", CONTROLS, blocks=2_000, detect=0.2))
    assert found.count("FAIL") > most_fails(CONTROLS)
