"""Faults of drafters: each is off where an honest drafter of its scheme is not, and is named."""

import numpy as np
import pytest

from simverify.auditing import examiner
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import Examiner, nearest_faults, refuted_faults
from simverify.auditing.instances import draft_instances, fault_revealing_trees
from simverify.auditing.subject import Subject, load_subject
from simverify.faults import FAULTS
from simverify.faults.drafters import misreported, unchanged_row
from simverify.trees import SCHEMES

DRAFTERS = {name: fault for name, fault in FAULTS.items() if fault.contract == "draft"}

UNLAWFUL = {"unnormalised-report"}
"""What they report is no law, so that their tokens follow none."""


def core(scheme, seed=0):
    """The instances that the self-test tries drafters on."""
    return fault_revealing_trees(draft_instances(SCHEMES[scheme], 4, 12, seed))


def examiner_of(rule):
    return Examiner(Subject("mine", rule, "draft"), "draft", leaves=10_000)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_honest_drafter_is_right_wherever_a_fault_shows(scheme):
    honest = examiner_of(misreported(unchanged_row, unchanged_row, scheme))
    assert not any(honest.fails(model) for model in core(scheme))
    faults = {name: fault for name, fault in DRAFTERS.items() if fault.scheme == scheme}
    assert faults
    for name, fault in faults.items():
        assert any(examiner_of(fault.rule).fails(model) for model in core(scheme)), name
    assert set(refuted_faults("draft", core(scheme), None)) == set(faults)


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.thorough
def test_its_own_name_comes_first(name):
    fault = DRAFTERS[name]
    models = draft_instances(SCHEMES[fault.scheme], 2, 3, 0)
    subject = Subject("mine", fault.rule, "draft")
    failure = run_exact_tier(subject, "draft", models, tolerance=None, searching=False).failure
    assert failure.failed
    if name in UNLAWFUL:
        assert "sum to" in failure.comparison.findings[0].message
        return
    first, *others = nearest_faults(subject, failure, "draft")
    assert (first.fault, first.distance) == (name, 0.0)
    assert all(other.distance > 1e-3 for other in others)


def test_faults_of_trees_are_no_faults_of_drafters():
    (chain,) = (m for m in core("iid") if m.name == "plain, V=3, tree 1")
    assert {fault.contract for fault in examiner._candidate_faults("draft", chain)} == {"draft"}
    assert {fault.contract for fault in examiner._candidate_faults("tree", chain)} == {"tree"}


def test_a_fault_is_on_trial_by_its_name():
    subject = load_subject("sampled-hub")
    assert (subject.contract, subject.scheme) == ("draft", "argmax-first")


def test_bfloat16_is_as_far_off_as_bfloat16_rounds():
    row = np.array([2 / 3, 1 / 3])
    _, reported = DRAFTERS["bfloat16-report"].rule((), row, 1, np.random.default_rng(0))
    assert np.allclose(reported, row, rtol=2**-8)
    assert not np.allclose(reported, row, rtol=2**-10)
