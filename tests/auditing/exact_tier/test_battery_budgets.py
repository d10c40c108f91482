"""How the exact tier deals out its paths and seconds among instances."""

from dataclasses import dataclass
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
    D,
    Told,
    counting,
    instance,
    names,
    run,
    seen,
)

from simverify.auditing import exact_tier
from simverify.auditing.confirm import Confirmation
from simverify.auditing.exact_tier import TRUNCATED_MASS, ExactTier, run_battery
from simverify.symbolic.engine import Budget


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Clocks read one second, and failures and findings are what they are said to be."""
    monkeypatch.setattr(exact_tier.Stopwatch, "seconds", lambda self: 1.0)
    monkeypatch.setattr(
        exact_tier, "confirm_failure", lambda examiner, judged: Confirmation(judged, note="1 path")
    )
    monkeypatch.setattr(exact_tier, "confirm_findings", lambda examiner, model, error: error)


def test_small_instances_take_what_is_left_of_all_paths():
    tier, given = run([A, B, C], {A: seen(A, paths=1_500)}, paths=2_000)
    assert given == [("A", FAIR, 59.0, None), ("B", 500, 59.0, None), ("C", 490, 59.0, None)]
    assert tier.paths == 1_520


def test_a_large_instance_takes_an_eighth_and_leaves_one():
    """Also of what instances took that were larger than that."""
    come = {LARGE: MANY, LARGER: seen(LARGER, paths=100), A: seen(A, paths=200)}
    _, given = run([LARGE, A, LARGER, LARGER, LARGER], come, paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [
        ("large", 100), ("A", 800), ("larger", 100), ("larger", 100), ("larger", 100),
    ]  # fmt: skip
    tier, given = run([LARGE] * 9 + [A], {LARGE: MANY}, paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [("large", 100)] * 7 + [("A", 800)]
    assert names(tier.skipped) == ["large"] * 9
    tier, given = run([A, LARGE, B], {A: seen(A, paths=650)}, paths=800)
    assert [(name, paths) for name, paths, *_ in given] == [("A", 800), ("large", 50), ("B", 140)]


def test_parts_of_the_paths_are_whole_and_small_instances_waste_none_of_large_ones():
    _, given = run([LARGE], paths=801)
    assert [(name, paths) for name, paths, *_ in given] == [("large", 100)]
    _, given = run([A, B, LARGE], {A: MANY, B: seen(B, paths=651)}, paths=801)
    assert [(name, paths) for name, paths, *_ in given] == [("A", 801), ("B", 801), ("large", 50)]


@pytest.mark.parametrize(("taken", "left"), [(699, [("large", 1)]), (700, [])])
def test_a_large_instance_takes_the_last_path_and_no_more(taken, left):
    come = {B: seen(B, paths=taken)}
    tier, given = run([B, LARGE], come, paths=800, enumeration=counting())
    assert [(name, paths) for name, paths, *_ in given] == [("B", 800), *left]
    assert names(tier.skipped) == ([] if left else ["large"])


@dataclass(frozen=True)
class Dear(Told):
    """An examiner whose paths take seven times the effort of others, as torch's in a model do."""

    def judge(self, model):
        judged = super().judge(model)
        self.enumeration.source.epoch += judged.comparison.paths
        self.enumeration.source.torch_calls += 6 * 40 * judged.comparison.paths
        return judged


def run_dear(models, come, usual):
    """A battery of 200 paths that are dear, and the paths that each instance was given."""
    tier, given = ExactTier(), []
    enumeration = counting(epoch=5_000, torch_calls=9_000)
    run_battery(
        tier,
        Dear(come, given, enumeration=enumeration),
        models,
        Budget(200, 60.0),
        usual,
    )
    return tier, [(name, paths) for name, paths, *_ in given]


@pytest.mark.parametrize(
    ("a_path", "in_all", "usual"), [(4.0, 9_999, 200), (99.0, 800, 200), (99.0, 400, 100)]
)
def test_beyond_the_core_dear_paths_are_fewer(monkeypatch, a_path, in_all, usual):
    """An instance takes a fourth of the effort that is left at most; the core takes what it needs.

    There is so much for a path, and so much in all, twice that where twice the paths are asked for.

    What an enumeration had run before the battery began is not charged to it.
    """
    monkeypatch.setattr(exact_tier, "EFFORT_PER_PATH", a_path)
    monkeypatch.setattr(exact_tier, "MAX_EFFORT", in_all)
    come = {CORE: seen(CORE, paths=100), B: seen(B, paths=30), C: seen(C, paths=41)}
    tier, given = run_dear([CORE, B, C, *[D] * 9], come, usual)
    # 800 of effort, of which the core takes 700: 100 are left, and a fourth of them is 4 paths.
    assert given == [("core", 200), ("B", 4)]
    assert names(tier.skipped) == ["C", *"D" * 9]


@pytest.mark.parametrize(("taken", "left"), [(112, [("B", 1)]), (115, [])])
def test_the_last_dear_path_is_taken_and_no_more(monkeypatch, taken, left):
    """Of 800 of effort the core takes 784, or 805."""
    monkeypatch.setattr(exact_tier, "EFFORT_PER_PATH", 4.0)
    tier, given = run_dear([CORE, B], {CORE: seen(CORE, paths=taken)}, 200)
    assert given == [("core", 200), *left]
    assert names(tier.skipped) == ([] if left else ["B"])


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
        ("A", 59.0, None),
        ("B", 59.0, None),
        ("B", 58.0, TRUNCATED_MASS),
        ("C", 58.0, TRUNCATED_MASS),
    ]
    _, given = run([A], {A: (MANY, seen(A))}, seconds=1.5)
    assert [seconds for _, _, seconds, _ in given] == [0.5, 0.01]


@pytest.mark.parametrize("why", ["paths", "coins", "an integer"])
def test_what_did_not_get_a_fair_part_may_have_an_end(why):
    """Then the others are tried to their end too."""
    subject = SimpleNamespace(coin_bits=24 if why == "coins" else None)
    more = {"paths": FAIR - 1} if why == "paths" else {}
    # Whether anybody knows where it is drawn makes no difference.
    enumeration = counting(widest=(1000, "")) if why == "an integer" else None
    tier, given = run([A, B], {A: MANY}, subject=subject, enumeration=enumeration, **more)
    assert [(name, enough) for name, _, _, enough in given] == [("A", None), ("B", None)]
    assert names(tier.skipped) == ["A"]
    ((_, _, _, enough),) = run([A], {A: seen(A)}, paths=FAIR)[1]
    assert enough is None
    assert len(run([A], {A: MANY}, paths=FAIR)[1]) == 2


def test_after_three_without_an_end_no_more_are_tried():
    come = dict.fromkeys((A, B, C), MANY)
    tier, _ = run([A, D, B, C, D], come)
    assert names(tier.skipped) == ["A", "B", "C"]
    assert names(tier.judged) == ["D"]
    assert tier.not_enumerable.call == (
        f"all paths on C: more than {FAIR:,}, as where a loop draws until it accepts, and the "
        "heaviest of them leave out a mass above 2e-07: draw from the distribution that "
        "the loop accepts instead"
    )
    # Those that had not their fair part do not count.
    tier, _ = run([A, B, C, D], come, paths=FAIR - 1)
    assert tier.not_enumerable is None
    assert names(tier.judged) == ["D"]


@pytest.mark.parametrize(("seconds", "judged"), [(1.0, ""), (0.5, ""), (1.001, "AB")])
def test_no_instance_is_begun_when_time_is_over(seconds, judged):
    tier, _ = run([A, B], seconds=seconds)
    assert names(tier.judged) == list(judged)
    assert tier.aborted == (None if judged else seconds)
    assert names(tier.late) == ([] if judged else ["A", "B"])
