"""Notes on rules that are lossless and accept less than they could."""

from dataclasses import replace

import numpy as np
import pytest

from simverify.auditing.exact_tier import expected_accepted, optimal_acceptance
from simverify.auditing.examiner import Examiner, verify_as_step
from simverify.auditing.instances import instance_battery
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.verifiers import VERIFIERS

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=2, vocab=3)


def notes(rule, settings=SMALL):
    run = audit(Subject("mine", rule, None), "verify", settings)
    assert (run.verdict, run.findings) == ("PASS", ())
    return run


def no_bonus(p, q, x, rng):
    tokens = VERIFIERS["block"].rule(p, q, x, rng)
    return tokens[: len(x)]


def timid(p, q, x, rng):
    """Block verification of the first draft token alone."""
    return VERIFIERS["block"].rule(p[:2], q[:1], x[:1], rng)


def test_a_rule_without_bonus_tokens_is_named():
    run = notes(no_bonus)
    (note,) = run.notes
    assert note.startswith("never emits a bonus token after gamma accepted drafts")
    assert "block verification emits" in note
    worst = min(
        (i for i in run.instances if i.optimum > 1e-9),
        key=lambda i: i.expected_accepted / i.optimum,
    )
    assert worst.name in note
    assert f"E[tau] {worst.expected_accepted:.4g}" in note


@pytest.mark.parametrize("name", ["token", "match"])
def test_a_rule_below_the_optimum_says_how_far_and_like_which(name):
    run = notes(VERIFIERS[name].rule)
    (note,) = run.notes
    assert note.startswith("accepts less than the optimum on ")
    assert f"as the {name} rule" in note
    models = {model.name: model for model in instance_battery(2, 3)}
    known = [instance for instance in run.instances if instance.name in models]
    assert len(known) > len(run.instances) / 2  # the others stand beside the rule's own numbers
    for instance in known:
        model = models[instance.name]
        assert instance.expected_accepted == pytest.approx(
            expected_accepted(name, model), abs=1e-12
        )


def test_an_optimal_rule_and_one_like_no_other():
    run = notes(VERIFIERS["block"].rule)
    assert run.notes == ()
    assert all(i.expected_accepted == pytest.approx(i.optimum, abs=1e-12) for i in run.instances)
    (note,) = notes(timid).notes
    assert "as the" not in note


def test_the_optimum_on_one_draft_is_the_overlap():
    for model in instance_battery(1, 3):
        p, q = model.target(()), model.draft(())
        assert optimal_acceptance(model) == pytest.approx(np.minimum(p, q).sum(), abs=1e-12)


def few(prefix, target, draft, gamma, rng):
    """Draft one token fewer than asked for."""
    return verify_as_step(VERIFIERS["token"].rule)(prefix, target, draft, gamma - 1, rng)


@pytest.mark.parametrize("name", ["token", "block"])
@pytest.mark.thorough
def test_a_rule_that_drafts_itself_accepts_the_tokens_of_its_first_call_less_one(name):
    rule = verify_as_step(VERIFIERS[name].rule)
    run = audit(Subject("mine", rule, None), "step", SMALL)
    assert (run.verdict, run.notes) == ("PASS", ())  # no word of how far from optimal it is
    models = {model.name: model for model in instance_battery(2, 3)}
    told = [x for x in run.instances if x.expected_accepted is not None and x.name in models]
    assert len(told) > 10
    for instance in told:
        model = models[instance.name]
        if model.prompt:
            assert instance.optimum is None
            continue
        assert instance.expected_accepted == pytest.approx(expected_accepted(name, model), abs=1e-9)
        assert instance.optimum == pytest.approx(optimal_acceptance(model), abs=1e-12)
    # Of one draft every right rule of these accepts the most.
    ones = [x for x in run.instances if x.gamma == 1 and x.optimum is not None]
    assert len(ones) > 5
    assert all(x.expected_accepted == pytest.approx(x.optimum, abs=1e-9) for x in ones)


def test_of_one_that_drafts_fewer_it_is_less():
    run = audit(Subject("mine", few, None), "step", SMALL)
    assert run.verdict == "PASS"
    told = [x for x in run.instances if x.expected_accepted is not None and x.gamma == 2]
    assert any(x.expected_accepted < 0.9 * x.optimum for x in told)


def test_where_an_end_of_sequence_cuts_a_call_it_is_not_known():
    model = next(model for model in instance_battery(2, 3) if model.gamma == 2)
    judge = Examiner(Subject("mine", verify_as_step(VERIFIERS["token"].rule), None), "step").judge
    assert judge(model).comparison.expected_accepted == pytest.approx(
        expected_accepted("token", model)
    )
    assert judge(replace(model, eos=0)).comparison.expected_accepted is None
