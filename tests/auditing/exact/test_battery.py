"""Which instances the exact tier judges, within what, and what it says of the others."""

from copy import copy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

import simverify.auditing.exact.battery as module
from simverify.auditing.exact.battery import ENOUGH, ExactTier, run_battery
from simverify.auditing.exact.coins.coins import NotMonotone, TooManyCalls
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.repeated import Confirmed
from simverify.auditing.verdict import notes_of
from simverify.symbolic import CannotEnumerate, Finding, OutOfTime
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.errors import TooLarge

STOPPED = CannotEnumerate("a call")
BACK = NotMonotone(0, (0.0, 0.5, 1.0), (), (0,), (1,))
MANY = TooManyPaths(3)


def instance(name, vocab=2, gamma=1):
    return SmallModel(name, gamma, ((1,) * vocab,), ((1,) * vocab,))


A, B, C, D = (instance(name) for name in "ABCD")
LARGE, LARGER = instance("large", 4, 1), instance("larger", 4, 2)
FAIR = 1_000 + 30 * 4 * 2
"""Paths that a rule without endless loops stays below on two tokens and one draft."""


def seen(model, *, paths=10, failed=False, undecided=False):
    return SimpleNamespace(
        model=model, comparison=SimpleNamespace(paths=paths), failed=failed, undecided=undecided
    )


@dataclass(frozen=True)
class Told:
    """An examiner that is told what comes of each instance, and notes what it was given."""

    come: dict
    given: list
    max_paths: int = 0
    contract: str = "verify"
    subject: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(coin_bits=None))
    enough: float | None = None
    enumeration: None = None

    def judge(self, model, seconds):
        self.given.append((model.name, self.max_paths, seconds, self.enough))
        found = self.come.get(model, seen(model))
        found = found[self.enough is not None] if isinstance(found, tuple) else found
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Clocks read one second, and failures and findings are what they are said to be."""
    monkeypatch.setattr(module.Stopwatch, "seconds", lambda self: 1.0)
    monkeypatch.setattr(
        module, "confirm", lambda examiner, judged: Confirmed(judged, note="1 path")
    )
    monkeypatch.setattr(module, "confirm_findings", lambda examiner, model, error: error)


def run(models, come=None, *, max_paths=100_000, seconds=60.0, **more):
    """What the battery comes to, and what each instance was judged within."""
    tier, given = ExactTier(), []

    def examiner_for(paths):
        return Told(come or {}, given, paths, **more)

    run_battery(tier, examiner_for, models, max_paths, seconds)
    return tier, given


def names(models):
    return [getattr(x, "model", x).name for x in models]


ENDINGS = {
    "all is well": ({}, {"judged": "ABC"}),
    "one that fails": ({B: seen(B, failed=True)}, {"judged": "AB", "failure": "B"}),
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


def test_what_is_too_large_alone_to_follow_is_left_out():
    """Of the others the first is named; a small instance, or a finding, ends the tier."""
    first, second = TooLarge("a race of 4"), TooLarge("a race of 5")
    tier, _ = run([LARGE, LARGER, A], {LARGE: first, LARGER: second})
    assert (names(tier.skipped), names(tier.judged)) == (["large", "larger"], ["A"])
    assert (tier.too_large, tier.not_enumerable) == (first, None)
    found = TooLarge("a race of 4", "", (Finding("emits", "violation", "emitted token 9"),))
    for model, error in ((A, first), (LARGE, found), (LARGE, STOPPED)):
        tier, _ = run([model, B], {model: error})
        assert (tier.not_enumerable, tier.too_large, tier.judged) == (error, None, [])


def test_a_failure_that_does_not_repeat_is_a_limit(monkeypatch):
    monkeypatch.setattr(module, "confirm", lambda *_: Confirmed(None, STOPPED))
    tier, _ = run([A, B], {A: seen(A, failed=True)})
    assert (tier.judged, tier.failure, tier.not_enumerable) == ([], None, STOPPED)


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
    assert notes_of(ExactTier(beyond=[raised]), None, 1e-9)[-1] == (
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


def test_small_instances_take_what_is_left_of_all_paths():
    tier, given = run([A, B, C], {A: seen(A, paths=1_500)}, max_paths=2_000)
    assert given == [("A", FAIR, 59.0, None), ("B", 500, 59.0, None), ("C", 490, 59.0, None)]
    assert tier.paths == 1_520


def test_a_large_instance_takes_an_eighth_and_leaves_one():
    """Also of what instances took that were larger than that."""
    come = {LARGE: MANY, LARGER: seen(LARGER, paths=100), A: seen(A, paths=200)}
    _, given = run([LARGE, A, LARGER, LARGER, LARGER], come, max_paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [
        ("large", 100), ("A", 800), ("larger", 100), ("larger", 100), ("larger", 100),
    ]  # fmt: skip
    tier, given = run([LARGE] * 9 + [A], {LARGE: MANY}, max_paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [("large", 100)] * 7 + [("A", 800)]
    assert names(tier.skipped) == ["large"] * 9
    tier, given = run([A, LARGE, B], {A: seen(A, paths=650)}, max_paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [("A", 800), ("large", 50), ("B", 140)]


@dataclass(frozen=True)
class Dear(Told):
    """An examiner whose paths take seven times the effort of others, as torch's in a model do."""

    def judge(self, model, seconds):
        judged = super().judge(model, seconds)
        self.enumeration.source.epoch += judged.comparison.paths
        self.enumeration.source.torch_calls += 6 * 40 * judged.comparison.paths
        return judged


def test_beyond_the_core_dear_paths_are_fewer(monkeypatch):
    """An instance takes a fourth of the effort that is left at most; the core takes what it needs.

    What an enumeration had run before the battery began is not charged to it.
    """
    monkeypatch.setattr(module, "EFFORT", 4.0)
    core = replace(A, name="core", core=True)
    enumeration = SimpleNamespace(source=SimpleNamespace(epoch=5_000, torch_calls=9_000))
    tier, given = ExactTier(), []
    come = {core: seen(core, paths=100), B: seen(B, paths=30), C: seen(C, paths=41)}
    run_battery(
        tier,
        lambda paths: Dear(come, given, paths, enumeration=enumeration),
        [core, B, C, *[D] * 9],
        200,
        60.0,
    )
    # 800 of effort, of which the core takes 700: 100 are left, and a fourth of them is 4 paths.
    assert [(name, paths) for name, paths, *_ in given] == [("core", 200), ("B", 4)]
    assert names(tier.skipped) == ["C", *"D" * 9]


def test_no_instance_takes_more_than_is_fair():
    for contract, coin_bits, model, fair in (
        ("verify", None, A, FAIR),
        ("verify", None, instance("of three", 3, 2), 1_000 + 30 * 36 * 3),
        ("step", None, A, 4_000),
        ("verify", 24, A, 100_000),
    ):
        subject = SimpleNamespace(coin_bits=coin_bits)
        ((_, paths, *_),) = run([model], contract=contract, subject=subject)[1]
        assert paths == fair


def test_paths_without_end_are_weighed_from_then_on():
    """Each of the first sort is tried to its end, until one has none; what time it took counts."""
    open_ = (MANY, seen(B, undecided=True))
    _, given = run([A, B, C], {B: open_})
    assert [(name, seconds, enough) for name, _, seconds, enough in given] == [
        ("A", 59.0, None), ("B", 59.0, None), ("B", 58.0, ENOUGH), ("C", 58.0, ENOUGH),
    ]  # fmt: skip
    _, given = run([A], {A: (MANY, seen(A))}, seconds=1.5)
    assert [seconds for _, _, seconds, _ in given] == [0.5, 0.01]


@pytest.mark.parametrize("why", ["paths", "coins"])
def test_what_did_not_get_a_fair_part_may_have_an_end(why):
    """Then the others are tried to their end too."""
    subject = SimpleNamespace(coin_bits=24 if why == "coins" else None)
    more = {"max_paths": FAIR - 1} if why == "paths" else {}
    tier, given = run([A, B], {A: MANY}, subject=subject, **more)
    assert [(name, enough) for name, _, _, enough in given] == [("A", None), ("B", None)]
    assert names(tier.skipped) == ["A"]
    ((_, _, _, enough),) = run([A], {A: seen(A)}, max_paths=FAIR)[1]
    assert enough is None
    assert len(run([A], {A: MANY}, max_paths=FAIR)[1]) == 2


def test_after_three_without_an_end_no_more_are_tried():
    come = dict.fromkeys((A, B, C), MANY)
    tier, _ = run([A, D, B, C, D], come)
    assert names(tier.skipped) == ["A", "B", "C"]
    assert names(tier.judged) == ["D"]
    assert tier.not_enumerable.call == (
        f"all paths on C: more than {FAIR:,}, as where a loop draws until it accepts, and the "
        "heaviest of them leave out a mass above 2e-07: draw from the law that the loop accepts "
        "instead"
    )
    # Those that had not their fair part do not count.
    tier, _ = run([A, B, C, D], come, max_paths=FAIR - 1)
    assert tier.not_enumerable is None
    assert names(tier.judged) == ["D"]


@pytest.mark.parametrize(("seconds", "judged"), [(1.0, ""), (0.5, ""), (1.001, "AB")])
def test_no_instance_is_begun_when_time_is_over(seconds, judged):
    tier, _ = run([A, B], seconds=seconds)
    assert names(tier.judged) == list(judged)
    assert tier.aborted == (None if judged else seconds)
    assert names(tier.late) == ([] if judged else ["A", "B"])


def test_who_waits_is_told_where_the_tier_is(monkeypatch):
    said = []
    monkeypatch.setattr(module, "doing", said.append)
    monkeypatch.setattr(module, "look_closely", lambda: said.append("looks"))
    run([A, B])
    assert said == ["the exact tier on A", "looks", "the exact tier on B", "looks"]


def test_what_repeats_of_an_error_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "confirm_findings", lambda *given: asked.append(given) or CannotEnumerate("less")
    )
    tier, _ = run([A], {A: STOPPED})
    ((examiner, model, error),) = asked
    assert (examiner.max_paths, model, error) == (FAIR, A, STOPPED)
    assert tier.not_enumerable.call == "less"


def test_a_failure_is_repeated_by_who_found_it(monkeypatch):
    asked = []
    found = seen(A, failed=True)
    monkeypatch.setattr(
        module, "confirm", lambda *given: asked.append(given) or Confirmed(copy(found))
    )
    tier, _ = run([A], {A: found})
    ((examiner, judged),) = asked
    assert (examiner.max_paths, judged) == (FAIR, found)
    assert tier.judged == [tier.failure]
    assert tier.failure is not found
