"""What a deviation is held to, by the precision that was met and by what lifted code does."""

from types import SimpleNamespace

import pytest

from simverify.auditing.exact.judging.comparison import HIDDEN, TOLERANCE, coarsest, deviation, hold
from simverify.symbolic import CannotEnumerate, OutOfTime
from simverify.symbolic.enumeration.paths import TooManyPaths


def law(dtype, found, *, pruned=0.0, lost=0.0, complete=True, excess=0.0):
    """A comparison that is so far from its target."""
    return SimpleNamespace(
        dtype=dtype, max_abs_deviation=found + 2 * pruned + lost, pruned=pruned, lost=lost,
        excess=excess, complete=complete,
    )  # fmt: skip


STOPPED = CannotEnumerate("a call")

# What was met, what the code does with 16 bits lifted and with 32 bits lifted, and what it is
# held to: the tolerance, the dtype that is said, whether the lifted law is what counts.
TABLE = [
    ("rounding of float64", law("float64", 1e-12), {}, (1e-9, "float64", False)),
    ("at the tolerance", law("float64", 1e-9), {}, (1e-9, "float64", False)),
    ("far off", law("float64", 0.5), {}, (1e-9, "float64", False)),
    ("hidden float32", law("float64", 1e-8), {"single": law("float64", 1e-12)},
     (1e-6, "float32", False)),
    ("off in float64", law("float64", 1e-8), {"single": law("float64", 1e-8)},
     (1e-9, "float64", False)),
    ("off at float32's tolerance", law("float64", 1e-6), {"single": law("float64", 1e-9)},
     (1e-6, "float32", False)),
    ("unliftable", law("float64", 1e-8), {"single": STOPPED}, (1e-9, "float64", False)),
    ("hidden 16 bits", law("float64", 1e-3), {"half": law("float64", 1e-12)},
     (2e-2, HIDDEN, False)),
    ("hidden 16 bits, at the bound", law("float64", 2e-2), {"half": law("float64", 1e-9)},
     (2e-2, HIDDEN, False)),
    ("beyond 16 bits", law("float64", 2.1e-2), {}, (1e-9, "float64", False)),
    ("no 16 bits", law("float64", 1e-3), {"half": law("float64", 1e-3)},
     (1e-9, "float64", False)),
    ("16 and 32 bits, both hidden", law("float64", 1e-3),
     {"half": law("float64", 1e-8), "single": law("float64", 1e-12)}, (2e-2, HIDDEN, False)),
    ("16 bits hide a fault", law("float64", 1e-3),
     {"half": law("float64", 1e-8), "single": law("float64", 1e-8)}, (1e-9, "float64", False)),
    ("16 bits hide what cannot be lifted", law("float64", 1e-3),
     {"half": law("float64", 1e-8), "single": STOPPED}, (1e-9, "float64", False)),
    ("float32", law("float32", 1e-7), {}, (1e-6, "float32", False)),
    ("off in float32", law("float32", 1e-3), {"half": law("float32", 1e-3)},
     (1e-6, "float32", False)),
    ("float32 and hidden 16 bits", law("float32", 1e-3), {"half": law("float32", 1e-7)},
     (2e-2, HIDDEN, False)),
    ("float32, lifted to float64, is off", law("float32", 1e-3),
     {"half": law("float64", 1e-7), "single": law("float64", 1e-7)}, (1e-6, "float32", False)),
    ("what is lifted is cut short", law("float64", 1e-3),
     {"half": law("float64", 1e-12, complete=False)}, (1e-9, "float64", False)),
    ("what is lifted loses mass", law("float64", 1e-3), {"half": law("float64", 1e-12, lost=0.1)},
     (1e-9, "float64", False)),
    *(row for dtype in ("bfloat16", "float16") for row in (
        ("16 bits", law(dtype, 1e-7), {}, (2e-2, dtype, False)),
        ("16 bits, at float32's bound", law(dtype, 1e-6), {}, (2e-2, dtype, False)),
        ("16 bits, too far", law(dtype, 0.1), {}, (2e-2, dtype, False)),
        ("16 bits explain it", law(dtype, 1e-3), {"half": law("float64", 1e-12)},
         (2e-2, dtype, False)),
        ("16 bits explain it, at the bound", law(dtype, 2e-2), {"half": law("float32", 1e-6)},
         (2e-2, dtype, False)),
        ("16 bits do not explain it", law(dtype, 1e-3), {"half": law("float32", 1e-3)},
         (1e-6, dtype, True)),
        ("16 bits stay", law(dtype, 1e-3), {"half": law(dtype, 1e-3)}, (2e-2, dtype, False)),
        ("16 bits, unliftable", law(dtype, 1e-3), {"half": STOPPED}, (2e-2, dtype, False)),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("met", "lifts", "due"), [row[1:] for row in TABLE],
                         ids=[f"{row[1].dtype}: {row[0]}" for row in TABLE])  # fmt: skip
def test_a_deviation_is_held_to_what_explains_it(met, lifts, due):
    asked = []

    def compare(lift):
        if lift is None:
            return met
        asked.append(lift)
        if isinstance(lifts[lift], Exception):
            raise lifts[lift]
        return lifts[lift]

    held = hold(compare, None)
    assert (held.tolerance, held.dtype, held.lifted) == due
    assert set(asked) == set(lifts)
    assert held.comparison is (lifts["half"] if held.lifted else met)


@pytest.mark.parametrize("stop", [OutOfTime(1.0, 3), TooManyPaths(3)])
@pytest.mark.parametrize(
    ("dtype", "found"), [("float64", 1e-8), ("float64", 1e-3), ("float16", 0.01)]
)
def test_a_budget_that_ends_while_code_runs_lifted_fails_nobody(stop, dtype, found):
    def compare(lift):
        if lift is None:
            return law(dtype, found)
        raise stop

    with pytest.raises(type(stop)):
        hold(compare, None)


@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 0.5])
def test_a_tolerance_that_is_given_is_the_one(tolerance):
    held = hold(lambda lift: law("bfloat16", 1e-3), tolerance)
    assert (held.tolerance, held.dtype, held.lifted) == (tolerance, "bfloat16", False)


def test_what_was_not_run_or_lost_is_no_deviation():
    assert deviation(law("float64", 0.25)) == 0.25
    assert deviation(law("float64", 0.0, pruned=0.25)) == 0.0
    assert deviation(law("float64", 0.0, lost=0.25)) == 0.0
    missing = SimpleNamespace(max_abs_deviation=0.5, pruned=0.125, lost=0.0625, excess=0.0)
    assert deviation(missing) == 0.1875


def test_what_was_lost_excuses_nothing_that_is_too_likely():
    assert deviation(law("float64", 0.0, lost=0.25, excess=0.125)) == 0.125
    assert deviation(law("float64", 0.0, pruned=0.0625, lost=0.25, excess=0.125)) == 0.0625


def test_the_coarsest_precision_is_the_one_with_the_largest_tolerance():
    assert coarsest(set()) == "float64"
    assert coarsest({"float32"}) == "float32"
    assert coarsest({"float64", "float32"}) == "float32"
    assert coarsest({"float32", "bfloat16"}) == "bfloat16"
    assert list(TOLERANCE.values()) == sorted(TOLERANCE.values())
