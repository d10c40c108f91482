"""Which instances the exact tier judges, within what, and what it says of the others."""

from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.told_examiner import (
    CORE,
    FAIR,
    LARGE,
    LARGER,
    MANY,
    A,
    B,
    C,
    counting,
    instance,
    names,
    run,
    seen,
)

from simverify.auditing import exact_tier as module
from simverify.auditing.coins import HiddenRandomness, NotMonotone, TooManyCalls
from simverify.auditing.confirm import Confirmation
from simverify.auditing.exact_tier import ExactTier
from simverify.auditing.verdict import tier_notes
from simverify.symbolic import CannotEnumerate, Finding, OutOfTime
from simverify.symbolic.provenance import InstanceTooLarge

STOPPED = CannotEnumerate("a call")
BACK = NotMonotone(0, (0.0, 0.5, 1.0), (), (0,), (1,))


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Clocks read one second, and failures and findings are what they are said to be."""
    monkeypatch.setattr(module.Stopwatch, "seconds", lambda self: 1.0)
    monkeypatch.setattr(
        module, "confirm_failure", lambda examiner, judged: Confirmation(judged, note="1 path")
    )
    monkeypatch.setattr(module, "confirm_findings", lambda examiner, model, error: error)


ENDINGS = {
    "all is well": ({}, {"judged": "ABC"}),
    "one that fails": ({B: seen(B, failed=True)}, {"judged": "AB", "failure": "B"}),
    "two that fail": (
        {B: seen(B, failed=True), C: seen(C, failed=True)}, {"judged": "AB", "failure": "B"},
    ),
    "one that fails and is undecided": (
        {B: seen(B, failed=True, undecided=True)}, {"judged": "AB", "failure": "B"},
    ),
    "one that is undecided": ({B: seen(B, undecided=True)}, {"judged": "ABC"}),
    "one that cannot be followed": ({B: STOPPED}, {"judged": "A", "stop": "a call"}),
    "one whose coins go back": ({B: BACK}, {"judged": "A", "stop": f"coins: {BACK}"}),
    "one with too many calls": ({B: TooManyCalls(3, 2)}, {"judged": "AC", "skipped": "B"}),
    "time ends": ({B: OutOfTime(9.0, 3)}, {"judged": "A", "late": "BC", "aborted": 60.0}),
    "one whose paths have no end": ({B: (MANY, seen(B))}, {"judged": "ABC"}),
    "one of those that stays open": (
        {B: (MANY, seen(B, undecided=True))}, {"judged": "AC", "skipped": "B"},
    ),
    "one of those that fails": (
        {B: (MANY, seen(B, failed=True, undecided=True))}, {"judged": "AB", "failure": "B"},
    ),
}  # fmt: skip
"""What comes of three instances, and what is said of them."""


@pytest.mark.parametrize(("come", "due"), ENDINGS.values(), ids=ENDINGS)
def test_the_battery_ends_as_the_table_says(come, due):
    tier, _ = run([A, B, C], come)
    assert names(tier.judged) == list(due["judged"])
    assert names(tier.skipped) == list(due.get("skipped", ""))
    assert names(tier.late) == list(due.get("late", ""))
    assert tier.aborted == due.get("aborted")
    assert (tier.failure and tier.failure.model.name) == due.get("failure")
    assert tier.unrepeated == ("1 path" if "failure" in due else "")
    assert (tier.not_enumerable and tier.not_enumerable.call) == due.get("stop")


ORDERS = {
    "all is well": ({}, ["core", "A", "C"], ["A", "core", "C"], None),
    "one of the core fails": (
        {CORE: seen(CORE, failed=True)}, ["core", "A"], ["A", "core"], "core",
    ),
    "one before it fails too": (
        {CORE: seen(CORE, failed=True), A: seen(A, failed=True)}, ["core", "A"], ["A"], "A",
    ),
    "one of the core does not come back": (
        {CORE: seen(CORE, failed=True, complete=False)}, ["core"], ["core"], "core",
    ),
}  # fmt: skip
"""What comes of three instances of which the second is of the core; in which order each is run."""


@pytest.mark.parametrize(("come", "order", "judged", "failure"), ORDERS.values(), ids=ORDERS)
def test_the_core_is_first_and_the_first_that_fails_counts(come, order, judged, failure):
    tier, given = run([A, CORE, C], come)
    assert [name for name, *_ in given] == order
    assert names(tier.judged) == judged
    assert (tier.failure and tier.failure.model.name) == failure


def test_where_nothing_can_be_asked_the_finding_names_the_instance():
    tier, _ = run([A, B], {B: HiddenRandomness()})
    (finding,) = tier.not_enumerable.findings
    assert (finding.kind, finding.message) == ("own-randomness", f"{HiddenRandomness()}, on B")


def test_what_is_too_large_alone_to_follow_is_left_out():
    """Of the others the first is named; a small instance, or a finding, ends the tier."""
    first, second = InstanceTooLarge("a race of 4"), InstanceTooLarge("a race of 5")
    tier, _ = run([LARGE, LARGER, A], {LARGE: first, LARGER: second})
    assert (names(tier.skipped), names(tier.judged)) == (["large", "larger"], ["A"])
    assert (tier.too_large, tier.not_enumerable) == (first, None)
    # Nor is it one of those whose paths have no end, three of which end the tier.
    several = [replace(LARGE, name=name) for name in "1234"]
    tier, _ = run([*several, A], dict.fromkeys(several, first))
    assert (tier.not_enumerable, names(tier.judged)) == (None, ["A"])
    found = InstanceTooLarge("a race of 4", "", (Finding("emits", "violation", "emitted token 9"),))
    for model, error in ((A, first), (LARGE, found), (LARGE, STOPPED)):
        tier, _ = run([model, B], {model: error})
        assert (tier.not_enumerable, tier.too_large, tier.judged) == (error, None, [])


def test_a_failure_that_does_not_repeat_is_a_limit(monkeypatch):
    monkeypatch.setattr(module, "confirm_failure", lambda *_: Confirmation(None, STOPPED))
    tier, given = run([A, CORE], {CORE: seen(CORE, failed=True)})
    assert (tier.judged, tier.failure, tier.not_enumerable) == ([], None, STOPPED)
    assert [name for name, *_ in given] == ["core"]


def ends_at(*kinds, prompt, deviates=False):
    """A failure on an instance with such a prompt, of findings of these kinds."""
    model = replace(instance("around 64"), prompt=prompt)
    found = [Finding(kind, "violation", "raised IndexError") for kind in kinds]
    law = SimpleNamespace(paths=3, findings=found, complete=True)
    return SimpleNamespace(
        model=model, comparison=law, failed=True, violated=True, deviates=deviates, undecided=False
    )


def test_code_that_raises_beyond_a_length_of_its_own_is_told_and_not_failed():
    raised = ends_at("raises", prompt=(0,) * 63)
    tier, _ = run([A, raised.model, B], {raised.model: raised})
    assert tier.failure is None
    assert tier.beyond == [raised]
    assert names(tier.judged) == ["A", "B"]
    assert tier_notes(ExactTier(beyond=[raised]), None, 1e-9)[-1] == (
        "not counted: on around 64 the code raised IndexError: its own longest context, "
        "if that is what the number is"
    )


@pytest.mark.parametrize(
    "failure",
    [
        ends_at("raises", prompt=()),
        ends_at("impossible-token", prompt=(0,) * 63),
        ends_at("raises", "impossible-token", prompt=(0,) * 63),
        ends_at("raises", prompt=(0,) * 63, deviates=True),
    ],
)
def test_any_other_failure_on_a_long_prefix_counts(failure):
    tier, _ = run([A, failure.model], {failure.model: failure})
    assert tier.failure is failure
    assert tier.beyond == []


def test_who_waits_is_told_where_the_tier_is(monkeypatch):
    said = []
    monkeypatch.setattr(module, "report_activity", said.append)
    monkeypatch.setattr(module, "begin_instance", said.append)
    run([A, B])
    assert said == ["the exact tier on A", A, "the exact tier on B", B]


def test_what_repeats_of_an_error_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "confirm_findings", lambda *given: asked.append(given) or CannotEnumerate("less")
    )
    tier, _ = run([A], {A: STOPPED})
    ((examiner, model, error),) = asked
    assert (examiner.budget.paths, model, error) == (FAIR, A, STOPPED)
    assert tier.not_enumerable.call == "less"


def test_a_failure_is_repeated_by_who_found_it(monkeypatch):
    asked = []
    found = seen(A, failed=True)
    monkeypatch.setattr(
        module, "confirm_failure", lambda *given: asked.append(given) or Confirmation(copy(found))
    )
    tier, _ = run([A], {A: found})
    ((examiner, judged),) = asked
    assert (examiner.budget.paths, judged) == (FAIR, found)
    assert tier.judged == [tier.failure]
    assert tier.failure is not found


def failed(deviates, violated, tolerance=1e-9):
    held = SimpleNamespace(tolerance=tolerance)
    return SimpleNamespace(deviates=deviates, violated=violated, held=held)


def test_a_failure_is_told_with_one_of_another_sort_on_other_rows():
    law, contract = failed(True, False), failed(False, True)
    rows = SimpleNamespace(failures=[("p", failed(True, False)), ("q", contract), ("r", contract)])
    assert ExactTier(rows=rows).failures == []
    assert ExactTier(failure=law).failures == [law]
    assert ExactTier(failure=law, rows=rows).failures == [law, contract]
    assert ExactTier(failure=contract, rows=rows).failures == [contract, rows.failures[0][1]]


def test_the_coarsest_precision_is_what_all_is_held_to():
    assert ExactTier().held is None
    coarse = failed(False, False, tolerance=1e-3)
    assert (
        ExactTier(judged=[failed(False, False), coarse, failed(False, False)]).held is coarse.held
    )


def test_an_integer_of_many_values_is_named_where_it_is_drawn():
    wide = counting(widest=(1000, "a.py:3"), longest="a.py:7")
    limit = module._too_many_paths_error(SimpleNamespace(enumeration=wide), A, 7)
    assert (limit.where, limit.call) == (
        "a.py:3",
        "all paths on A: more than 7: a random integer of 1,000 values is used in more than a "
        "comparison, and is run value by value: compare it with a number, or draw a uniform "
        "instead",
    )


@pytest.mark.parametrize(
    ("enumeration", "where"), [(counting(longest="a.py:7"), "a.py:7"), (None, "")]
)
def test_a_loop_without_an_end_is_named_where_it_draws(enumeration, where):
    limit = module._too_many_paths_error(SimpleNamespace(enumeration=enumeration), A, 7_000)
    assert limit.where == where
    assert limit.call.startswith("all paths on A: more than 7,000, as where a loop draws")
    assert "mass above 2e-07" in limit.call


def test_what_does_not_repeat_outside_a_battery_is_a_limit_too():
    tier = ExactTier()
    module.record_failure(tier, Confirmation(None, STOPPED))
    assert (tier.not_enumerable, tier.failure, tier.judged) == (STOPPED, None, [])
