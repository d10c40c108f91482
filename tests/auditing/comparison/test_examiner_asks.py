"""Whom an examiner asks for the law on an instance, and what it hands on."""

import inspect
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import pytest

from simverify.auditing import examiner as module
from simverify.auditing.enumeration import NO_EXTRA_CALLS, ExtraCalls, Generation
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import Examiner, make_enumeration, nearest_faults
from simverify.auditing.instances import SmallModel, instances_for
from simverify.auditing.subject import Subject, load_subject
from simverify.faults import FAULTS, get_fault
from simverify.symbolic.engine import Budget
from simverify.symbolic.source import total_effort

# What a law resembles: a fault names itself, and a fault that is right there is not named.


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
    return subject, run_exact_tier(
        subject, fault.contract, models, tolerance=1e-9, searching=False
    ).failure


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.thorough
def test_a_fault_names_itself(name):
    fault = get_fault(name)
    first, *others = nearest_faults(*failure(fault), fault.contract)
    assert first.fault == name
    assert first.distance < 1e-9
    assert all(other.distance > 1e-6 for other in others)


def test_a_small_deviation_is_not_like_a_fault_that_is_right_there():
    """Its law is the target's but for an event at u = 0, so it is near every small deviation."""
    fault = get_fault("scaled-acceptance(0.99999)")
    found = nearest_faults(*failure(fault), "verify", most=len(FAULTS))
    assert found[0].distance < 1e-3
    assert "zero-mass-accept" not in {d.fault for d in found}


def test_the_nearest_are_the_nearest_of_all():
    """What is left out because it is far on the cheaper instance is farther on both."""
    fault = get_fault("top-k-residual(1)")
    subject, judged = failure(fault)
    everything = nearest_faults(subject, judged, "verify", most=len(FAULTS))
    assert nearest_faults(subject, judged, "verify", most=3) == everything[:3]
    assert len(everything) > 15
    assert [d.distance for d in everything] == sorted(d.distance for d in everything)


def test_what_is_far_is_not_run_twice(monkeypatch):
    subject, judged = failure(get_fault("one-hot-residual"))
    runs = []
    comparison = module._examine_fault

    def counted(examiner, model):
        runs.append(examiner.subject.name)
        return comparison(examiner, model)

    monkeypatch.setattr(module, "_examine_fault", counted)
    monkeypatch.setattr(
        module, "_fault_comparison", lru_cache(inspect.unwrap(module._fault_comparison))
    )
    found = nearest_faults(subject, judged, "verify")
    twice = {name for name in runs if runs.count(name) == 2}
    assert "target-residual" in twice
    assert not {"inverted-ratio", "typical-acceptance", "softmax-residual"} & twice
    # The catalogue's laws are remembered: for the same failure only the subject runs again.
    runs.clear()
    assert nearest_faults(subject, judged, "verify") == found
    assert runs == ["one-hot-residual"]


def test_paths_of_a_step_rule_are_replayed_for_the_first_instances_alone():
    generations = 0

    def step(prefix, target, draft, gamma, rng):
        nonlocal generations
        generations += not prefix
        return [int(rng.choice(len(target(prefix)), p=target(prefix)))]

    models = [m for m in instances_for("step", 2, 3, seed=0) if not (m.earlier_calls or m.prompt)]
    tier = run_exact_tier(
        Subject("mine", step, "step"), "step", models, tolerance=1e-9, searching=False
    )
    assert (tier.failure, len(tier.judged)) == (None, len(models))
    # 8 leaves eight times, 24 twice, and one in 64.
    assert generations < tier.paths + 8 * 8 + 24 * 2 + tier.paths // 64 + 8


SUBJECT = load_subject("token")
MODEL = SmallModel(
    "mine", 3, ((3, 1), (1, 3)), ((1, 1), (2, 1)), earlier_calls=1, eos=1, prompt=(0, 0)
)


class Following:
    """Stands for what follows a rule: notes what it was told, and what its places learn."""

    def __init__(self):
        self.said = []
        self.source = SimpleNamespace(
            sites=SimpleNamespace(learn=lambda: self.said.append("learned")),
            epoch=0, torch_calls=0,
        )  # fmt: skip

    def __enter__(self):
        self.said.append("entered")
        return self

    def __exit__(self, *error):
        self.said.append("left")

    def release(self):
        self.said.append("released")


LAW = SimpleNamespace(accepted=0.75)


@pytest.fixture
def asked(monkeypatch):
    """Calls that an examiner makes, in order: the name, what was given, and that by name."""
    calls = []

    def note(name, answer):
        def called(*given, **named):
            calls.append((name, given, named))
            return answer() if callable(answer) else answer

        monkeypatch.setattr(module, name, called)

    note("compare_coins", "coins")
    note("compare_blocks", "blocks")
    note("compare_tokens", "tokens")
    note("enumerate_generation", LAW)
    note("make_enumeration", Following)
    return calls


BUDGET = Budget(99, 3.0, 2e-7)


def examiner(subject=SUBJECT, contract="verify", paths=99, known=None):
    return Examiner(subject, contract, 1e-7, replace(BUDGET, paths=paths), known, leaves=5)


BLOCKS = (SUBJECT.rule, MODEL, 3)
LIMITS = {"tolerance": 1e-7, "budget": BUDGET, "expected": MODEL.expected}


def test_blocks_are_compared_within_what_is_set_up(asked):
    known = Following()
    assert examiner(known=known).compare(MODEL) == "blocks"
    assert asked == [("compare_blocks", (known, *BLOCKS), LIMITS)]
    assert known.said == ["learned"]


@pytest.mark.parametrize(("is_set_up", "lift"), [(False, None), (False, "half"), (True, "half")])
def test_what_is_not_set_up_is_followed_anew(asked, is_set_up, lift):
    """Lifted code always: two that follow the same code would follow each other."""
    known = Following() if is_set_up else None
    assert examiner(known=known).compare(MODEL, lift) == "blocks"
    setting_up, (compared, (new, *given), named) = asked
    assert setting_up == ("make_enumeration", (SUBJECT, "verify", 5, lift), {})
    assert (compared, tuple(given), named) == ("compare_blocks", BLOCKS, LIMITS)
    assert new.said == ["entered", "learned", "left"]
    assert known is None or known.said == ["released"]


def test_what_follows_lifted_code_is_kept_from_instance_to_instance(asked):
    """One for each lift, whatever the budget; between the instances it is left."""
    first = examiner(known=Following())
    for one in (first, first.within(paths=7)):
        for lift in ("half", "single"):
            one.compare(MODEL, lift)
    made = [named for name, *named in asked if name == "make_enumeration"]
    assert [given[3] for given, _ in made] == ["half", "single"]
    used = [given[0] for name, given, _ in asked if name == "compare_blocks"]
    assert [following.said for following in used[:2]] == 2 * [2 * ["entered", "learned", "left"]]
    assert used[2] is used[0] is not used[1] is used[3]
    # Where nothing is set up each instance pays for its own.
    alone = examiner()
    for _ in range(2):
        alone.compare(MODEL, "half")
    assert len([name for name, *_ in asked if name == "make_enumeration"]) == 4


def test_what_lifted_code_runs_is_charged_to_what_it_is_lifted_from(asked, monkeypatch):
    known = Following()

    def compared(following, *given, **named):
        following.source.epoch += 3
        following.source.torch_calls += 40

    monkeypatch.setattr(module, "compare_blocks", compared)
    for lift in ("half", "single"):
        examiner(known=known).compare(MODEL, lift)
    assert total_effort(known.source) == 2 * (3 + 1)
    examiner(known=known).compare(MODEL)
    assert total_effort(known.source) == 2 * (3 + 1) + 3 + 1


def test_code_that_is_given_its_coins_is_not_followed(asked):
    coins = replace(SUBJECT, coin_bits=24)
    assert examiner(coins, known=Following()).compare(MODEL) == "coins"
    limits = {"bits": 24, "tolerance": 1e-7, "max_calls": 99, "coins": None, "seconds": 3.0}
    limits["expected"] = MODEL.expected
    assert asked == [("compare_coins", BLOCKS, limits)]


@pytest.mark.parametrize(("paths", "most"), [(99, 99), (60_000, 4_000)])
@pytest.mark.parametrize(
    ("name", "core", "beyond"),
    [
        ("mine", False, ExtraCalls(every_way=False, due=False)),
        ("mine", True, ExtraCalls(every_way=True, due=True)),
        ("plain, V=2, gamma=2", False, ExtraCalls(every_way=True, due=False)),
    ],
)
@pytest.mark.parametrize("wanted", [None, NO_EXTRA_CALLS])
def test_of_a_step_rule_the_output_is_compared(
    monkeypatch, asked, paths, most, name, core, beyond, wanted
):
    """After each way in which a call can end on the core; elsewhere where that takes few paths."""
    monkeypatch.setattr(module, "StepEnumeration", Following)
    known, model = Following(), replace(MODEL, name=name, core=core)
    asking = replace(examiner(SUBJECT, "step", paths, known), beyond=wanted)
    beyond = wanted or beyond
    assert asking.compare(model) == "tokens"
    (name, (following, rule, generation, budget), limits), (compared, (law, target), named) = asked
    assert (name, following, rule) == ("enumerate_generation", known, SUBJECT.rule)
    assert generation == Generation(model.target, model.draft, 3, 2, (0, 0), 1, 1)
    assert (budget, limits) == (replace(BUDGET, paths=most), {"beyond": beyond})
    assert (compared, law) == ("compare_tokens", LAW)
    assert named == {"tolerance": 1e-7, "accepted": 0.75}
    # After the prompt, and filled up with the token that ends it.
    assert target((0,)).tolist() == model.target((0, 0, 0)).tolist()
    assert target((1,)).tolist() == target((1, 0)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("contract", "name", "seeds"),
    [
        ("verify", "Enumeration", {"seed_once": False}),
        ("draft", "Enumeration", {"seed_once": True}),
        ("step", "StepEnumeration", {}),
    ],
)
def test_a_step_rule_is_followed_over_its_calls(monkeypatch, contract, name, seeds):
    made = []
    for known in ("Enumeration", "StepEnumeration"):
        monkeypatch.setattr(
            module, known, lambda *given, known=known, **named: made.append((known, given, named))
        )
    make_enumeration(SUBJECT, contract)
    make_enumeration(SUBJECT, contract, 5, "half")
    assert made == [
        (name, (SUBJECT.rule,), {**seeds, "leaves": leaves, "lift": lift})
        for leaves, lift in ((0, None), (5, "half"))
    ]
