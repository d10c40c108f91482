"""Calls that nothing steers contradict a law that is not the code's, and no other."""

import numpy as np
import pytest

import simverify.auditing.exact.judging.freely as module
from simverify.auditing.exact.generations.steps import StepEnumeration
from simverify.auditing.exact.instances.made import instances_for
from simverify.auditing.exact.judging.examiner import Examiner
from simverify.auditing.exact.judging.freely import CALLS, ERROR, Free, _joint
from simverify.auditing.exact.judging.repeated import _array_of
from simverify.auditing.subject import Subject

MODELS = {
    model.name: model
    for model in instances_for("step", 2, 3, 0)
    if model.name in {
        "plain, V=3, gamma=1", "plain, V=2, gamma=2, after end of sequence 1",
        "plain, V=2, gamma=2, after a reset", "after a prompt of 12, V=3, gamma=1",
    }
}  # fmt: skip


def right(prefix, target, draft, gamma, rng):
    return [rng.choice(len(target(prefix)), p=target(prefix))]


def swapped(prefix, target, draft, gamma, rng):
    """Wrong: it follows the draft."""
    return right(prefix, draft, target, gamma, rng)


def law_of(rule, model):
    with StepEnumeration(rule) as enumeration:
        examiner = Examiner(Subject("rule", rule, "step"), "step", enumeration=enumeration)
        return _array_of(examiner.compare(model, 60.0).emitted, model)


@pytest.mark.parametrize("name", MODELS)
def test_a_law_that_is_not_the_codes_is_contradicted(name):
    model = MODELS[name]
    assert (
        Free(Subject("rule", right, "step"), "step").contradict(model, law_of(swapped, model)) > 0
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rule", [right, swapped])
def test_the_codes_own_law_is_not(rule, name):
    model = MODELS[name]
    assert Free(Subject("rule", rule, "step"), "step").contradict(model, law_of(rule, model)) == 0


@pytest.mark.parametrize("name", ["plain, V=2, gamma=2, after a reset"])
def test_calls_end_the_test_and_no_clock(monkeypatch, name):
    """What neither law explains better takes all calls, however long they are together."""
    calls = []

    def slow(prefix, target, draft, gamma, rng):
        calls.append(prefix)
        return right(prefix, target, draft, gamma, rng)

    monkeypatch.setattr(module, "_SECONDS", 0.05)
    model = MODELS[name]
    due = _joint(model, model.gamma + 1)
    assert Free(Subject("rule", slow, "step"), "step").contradict(model, due) == 0
    # A generation of three tokens, and a call of an earlier one.
    assert len(calls) == 4 * CALLS


@pytest.mark.parametrize("name", MODELS)
def test_the_target_is_the_one_that_the_battery_judges_by(name):
    model = MODELS[name]
    due = law_of(right, model)
    np.testing.assert_allclose(_joint(model, model.gamma + 1), due, atol=1e-12)
    assert np.abs(law_of(swapped, model) - due).sum() > 100 * ERROR


def test_code_that_raises_contradicts_nothing():
    def broken(prefix, target, draft, gamma, rng):
        raise SystemExit(3)

    model = MODELS["plain, V=2, gamma=2, after a reset"]
    law = law_of(swapped, model)
    assert Free(Subject("rule", broken, "step"), "step").contradict(model, law) == 0
