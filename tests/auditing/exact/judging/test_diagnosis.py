"""What a law resembles: a fault names itself, and a fault that is right there is not named."""

import inspect
from functools import lru_cache

import pytest

from simverify.auditing.exact.instances.made import instances_for
from simverify.auditing.exact.judging import diagnosis
from simverify.auditing.exact.judging.diagnosis import resemble
from simverify.auditing.exact.tier import examine
from simverify.auditing.subject import Subject
from simverify.faults import FAULTS, get_fault

NAMED = [
    "residual-row-zero",
    "one-hot-residual",
    "unnormalised-residual",
    "double-chance",
    "previous-row",
    "target-temperature(0.9)",
    "reused-uniform",
    "rounded-q",
    "lenient(0.9)",
]


def failure(fault):
    """First instance of the battery on which the fault shows."""
    subject = Subject(fault.name, fault.rule, fault.contract)
    models = instances_for(fault.contract, 2, 3, seed=0)
    return subject, examine(
        subject, fault.contract, models, tolerance=1e-9, searching=False
    ).failure


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.thorough
def test_a_fault_names_itself(name):
    fault = get_fault(name)
    first, *others = resemble(*failure(fault), fault.contract)
    assert first.fault == name
    assert first.distance < 1e-9
    assert all(other.distance > 1e-6 for other in others)


def test_a_small_deviation_is_not_like_a_fault_that_is_right_there():
    """Its law is the target's but for an event at u = 0, so it is near every small deviation."""
    fault = get_fault("scaled-acceptance(0.99999)")
    found = resemble(*failure(fault), "verify", most=len(FAULTS))
    assert found[0].distance < 1e-3
    assert "zero-mass-accept" not in {d.fault for d in found}


def test_the_nearest_are_the_nearest_of_all():
    """What is left out because it is far on the cheaper instance is farther on both."""
    fault = get_fault("top-k-residual(1)")
    subject, judged = failure(fault)
    everything = resemble(subject, judged, "verify", most=len(FAULTS))
    assert resemble(subject, judged, "verify", most=3) == everything[:3]
    assert len(everything) > 15
    assert [d.distance for d in everything] == sorted(d.distance for d in everything)


def test_what_is_far_is_not_run_twice(monkeypatch):
    subject, judged = failure(get_fault("one-hot-residual"))
    runs = []
    comparison = diagnosis._comparison

    def counted(examiner, model):
        runs.append(examiner.subject.name)
        return comparison(examiner, model)

    monkeypatch.setattr(diagnosis, "_comparison", counted)
    monkeypatch.setattr(diagnosis, "_law", lru_cache(inspect.unwrap(diagnosis._law)))
    found = resemble(subject, judged, "verify")
    twice = {name for name in runs if runs.count(name) == 2}
    assert "target-residual" in twice
    assert not {"inverted-ratio", "typical-acceptance", "softmax-residual"} & twice
    # The catalogue's laws are remembered: for the same failure only the subject runs again.
    runs.clear()
    assert resemble(subject, judged, "verify") == found
    assert runs == ["one-hot-residual"]


def test_paths_of_a_step_rule_are_replayed_for_the_first_instances_alone():
    generations = 0

    def step(prefix, target, draft, gamma, rng):
        nonlocal generations
        generations += not prefix
        return [int(rng.choice(len(target(prefix)), p=target(prefix)))]

    models = [m for m in instances_for("step", 2, 3, seed=0) if not (m.earlier_calls or m.prompt)]
    tier = examine(Subject("mine", step, "step"), "step", models, tolerance=1e-9, searching=False)
    assert (tier.failure, len(tier.judged)) == (None, len(models))
    # 8 leaves eight times, 24 twice, and one in 64.
    assert generations < tier.paths + 8 * 8 + 24 * 2 + tier.paths // 64 + 8
