"""The core of the instances: small, and every catalogued fault shows on it."""

from dataclasses import replace

import pytest

from simverify.auditing.confirm import Confirmation
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import Examiner, _fault_examiner
from simverify.auditing.instances import CORE_INSTANCES, SmallModel, instances_for
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import clock_stop, decide_verdict, is_complete
from simverify.faults import FAULTS
from simverify.results import ClockStop
from simverify.verifiers import VERIFIERS

ELSEWHERE = {"zero-mass-accept", "repeated-stream", "seeded-per-request"}
"""Faults that show at u = 0 alone or in several requests, or that the exact tier cannot follow."""


def test_the_core_is_part_of_every_battery():
    for contract in ("verify", "step"):
        for seed in (0, 7):
            names = {model.name for model in instances_for(contract, 4, 12, seed)}
            assert names >= CORE_INSTANCES[contract]
    verify, step = (instances_for(contract, 2, 3, 0) for contract in ("verify", "step"))
    assert sum(model.core for model in verify) == len(CORE_INSTANCES["verify"]) - 1
    assert sum(model.core for model in step) == len(CORE_INSTANCES["step"])


# Names of the core are small whatever their size; of others, what has three tokens and two drafts.
SIZES = [
    ("plain, V=3, gamma=3", 3, 3, True),
    ("another", 3, 3, False),
    ("another", 3, 2, True),
    ("another", 2, 3, False),
    ("another", 4, 2, False),
    ("another", 4, 1, False),
]


@pytest.mark.parametrize(("name", "vocab", "gamma", "small"), SIZES)
def test_small_instances_may_take_all_paths(name, vocab, gamma, small):
    row = (1,) * vocab
    model = SmallModel(name, gamma, (row,), (row,), core=name in CORE_INSTANCES["verify"])
    assert model.is_small == small


@pytest.mark.parametrize("contract", ["verify", "step"])
@pytest.mark.thorough
def test_the_core_exposes_every_catalogued_fault(contract):
    core = [model for model in instances_for(contract, 4, 12, 0) if model.core]
    missed = []
    for name, fault in FAULTS.items():
        examiner = _fault_examiner(fault, contract, None)
        if examiner is None or name in ELSEWHERE:
            continue
        if not any(examiner.fails(model) for model in core):
            missed.append(name)
    assert missed == []


def test_what_is_left_out_for_want_of_time_is_named_and_takes_nothing_back(monkeypatch):
    models = instances_for("verify", 3, 3, 0)
    seen = []

    def judge(self, model):
        if len(seen) == len(CORE_INSTANCES["verify"]):
            raise OutOfTime(1.0, 1)
        seen.extend([model] if model.core else [])
        return plain(self, model)

    from simverify.symbolic.provenance import OutOfTime

    plain = Examiner.judge
    monkeypatch.setattr(Examiner, "judge", judge)
    subject = Subject("token", VERIFIERS["token"].rule, None)
    tier = run_exact_tier(subject, "verify", models, tolerance=None, searching=False)
    assert is_complete(tier)
    assert decide_verdict([], tier, None) == "PASS"
    assert len(tier.judged) + len(tier.late) == len(models)
    assert tier.late
    assert clock_stop(tier) == ClockStop(60.0, len(tier.judged), len(models), tier.late[0].name)
    tier.late = [next(x.model for x in tier.judged if x.model.core)]
    assert not is_complete(tier)
    assert decide_verdict([], tier, None) == "INCONCLUSIVE"


def judged_by(failing, models, monkeypatch):
    """Return the tier of a rule that is right, on instances of which some are told to fail."""
    order = []

    def judge(self, model):
        order.append(model.name)
        return replace(plain(self, model), deviates=model.name in failing)

    plain = Examiner.judge
    monkeypatch.setattr(Examiner, "judge", judge)
    monkeypatch.setattr(
        "simverify.auditing.exact_tier.confirm_failure", lambda _, judged: Confirmation(judged)
    )
    subject = Subject("token", VERIFIERS["token"].rule, None)
    return run_exact_tier(subject, "verify", models, tolerance=None, searching=False), order


def test_the_core_is_judged_first_and_shown_in_its_place(monkeypatch):
    models = instances_for("verify", 2, 3, 0)
    tier, order = judged_by((), models, monkeypatch)
    core = [model.name for model in models if model.core]
    assert order[: len(core)] == core
    assert [judged.model for judged in tier.judged] == models


@pytest.mark.parametrize(
    "failing",
    [
        ["plain, V=2, gamma=2"],
        ["skewed, V=2, gamma=1"],
        ["plain, V=2, gamma=2", "skewed, V=2, gamma=1", "q zero, V=3, gamma=1"],
        ["plain, V=3, gamma=2", "q zero, V=3, gamma=2"],
    ],
    ids=["core", "beside", "smaller beside", "larger beside"],
)
def test_the_first_failure_in_the_order_of_size_counts(failing, monkeypatch):
    models = instances_for("verify", 2, 3, 0)
    names = [model.name for model in models]
    first = min(map(names.index, failing))
    tier, _ = judged_by(failing, models, monkeypatch)
    assert tier.failure.model == models[first]
    assert [judged.model for judged in tier.judged] == models[: first + 1]
