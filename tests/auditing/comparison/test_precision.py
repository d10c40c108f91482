"""What a deviation is held to, by the precision that was met and by what lifted code does."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.comparison import (
    HIDDEN_HALF_PRECISION,
    TOLERANCE_BY_DTYPE,
    assess_precision,
    certain_deviation,
    coarsest_dtype,
)
from simverify.auditing.instances import instance_battery
from simverify.symbolic import CannotEnumerate, OutOfTime
from simverify.symbolic.paths import TooManyPaths

# What is a warning on one path or block is a violation where it is often elsewhere.


MODEL = next(m for m in instance_battery(2, 3) if m.name == "plain, V=2, gamma=1")
EDGE, OFTEN = 5e-7, 5e-4


def token(p, q, x, rng):
    y = int(x[0])
    if rng.random() * q[0, y] < p[0, y]:
        return [y, int(rng.choice(2, p=p[1]))]
    rest = np.maximum(p[0] - q[0], 0)
    return [int(rng.choice(2, p=rest / rest.sum()))]


def on_the_next_path(often):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < EDGE:
            raise ValueError("at an edge")
        if 0.5 < u < 0.5 + often:
            raise ValueError("elsewhere")
        return tokens

    return rule


def on_the_next_block(often):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < (often if x[0] else EDGE):
            raise ValueError("elsewhere" if x[0] else "at an edge")
        return tokens

    return rule


def of_two_edges(_):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < EDGE or 0.5 < u < 0.5 + 1.5 * EDGE:
            raise ValueError("elsewhere" if u > EDGE else "at an edge")
        return tokens

    return rule


@pytest.mark.parametrize("made", [on_the_next_path, on_the_next_block, of_two_edges])
def test_what_is_rare_at_first_is_a_violation_where_it_is_not(made):
    found = compare_verify(made(OFTEN), MODEL, MODEL.gamma)
    assert [(f.kind, f.severity) for f in found.findings] == [("raises", "violation")]
    assert "elsewhere" in found.findings[0].message


@pytest.mark.parametrize("made", [on_the_next_path, on_the_next_block])
def test_what_is_rare_everywhere_is_a_warning(made):
    found = compare_verify(made(EDGE / 2), MODEL, MODEL.gamma)
    assert [(f.kind, f.severity) for f in found.findings] == [("raises", "warning")]
    assert "at an edge" in found.findings[0].message


def law(dtype, found, *, pruned=0.0, lost=0.0, complete=True, excess=0.0):
    """A comparison that is so far from its target."""
    return SimpleNamespace(
        dtype=dtype, max_abs_deviation=found + 2 * pruned + lost, pruned=pruned, lost=lost,
        excess=excess, complete=complete, met_at="rule.py:3",
    )  # fmt: skip


STOPPED = CannotEnumerate("a call")

# What was met, what the code does with 16 bits lifted and with 32 bits lifted, and what it is
# held to: the tolerance, the dtype that is said, whether the lifted law is what counts.
TABLE = [
    ("rounding of float64", law("float64", 1e-12), {}, (1e-9, "float64", False)),
    ("at the tolerance", law("float64", 1e-9), {}, (1e-9, "float64", False)),
    ("far off", law("float64", 0.5), {}, (1e-9, "float64", False)),
    (
        "hidden float32",
        law("float64", 1e-8),
        {"single": law("float64", 1e-12)},
        (1e-6, "float32", False),
    ),
    (
        "off in float64",
        law("float64", 1e-8),
        {"single": law("float64", 1e-8)},
        (1e-9, "float64", False),
    ),
    (
        "off at float32's tolerance",
        law("float64", 1e-6),
        {"single": law("float64", 1e-9)},
        (1e-6, "float32", False),
    ),
    ("unliftable", law("float64", 1e-8), {"single": STOPPED}, (1e-9, "float64", False)),
    (
        "hidden 16 bits",
        law("float64", 1e-3),
        {"half": law("float64", 1e-12)},
        (2e-2, HIDDEN_HALF_PRECISION, False),
    ),
    (
        "hidden 16 bits, at the bound",
        law("float64", 2e-2),
        {"half": law("float64", 1e-9)},
        (2e-2, HIDDEN_HALF_PRECISION, False),
    ),
    ("beyond 16 bits", law("float64", 2.1e-2), {}, (1e-9, "float64", False)),
    ("no 16 bits", law("float64", 1e-3), {"half": law("float64", 1e-3)}, (1e-9, "float64", False)),
    (
        "16 and 32 bits, both hidden",
        law("float64", 1e-3),
        {"half": law("float64", 1e-8), "single": law("float64", 1e-12)},
        (2e-2, HIDDEN_HALF_PRECISION, False),
    ),
    (
        "16 bits hide a fault",
        law("float64", 1e-3),
        {"half": law("float64", 1e-8), "single": law("float64", 1e-8)},
        (1e-9, "float64", False),
    ),
    (
        "16 bits hide what cannot be lifted",
        law("float64", 1e-3),
        {"half": law("float64", 1e-8), "single": STOPPED},
        (1e-9, "float64", False),
    ),
    ("float32", law("float32", 1e-7), {}, (1e-6, "float32", False)),
    (
        "off in float32",
        law("float32", 1e-3),
        {"half": law("float32", 1e-3)},
        (1e-6, "float32", False),
    ),
    (
        "float32 and hidden 16 bits",
        law("float32", 1e-3),
        {"half": law("float32", 1e-7)},
        (2e-2, HIDDEN_HALF_PRECISION, False),
    ),
    (
        "float32, lifted to float64, is off",
        law("float32", 1e-3),
        {"half": law("float64", 1e-7), "single": law("float64", 1e-7)},
        (1e-6, "float32", False),
    ),
    (
        "what is lifted is cut short",
        law("float64", 1e-3),
        {"half": law("float64", 1e-12, complete=False)},
        (1e-9, "float64", False),
    ),
    (
        "what is lifted loses mass",
        law("float64", 1e-3),
        {"half": law("float64", 1e-12, lost=0.1)},
        (1e-9, "float64", False),
    ),
    *(
        row
        for dtype, bound, beyond in (("bfloat16", 2e-2, None), ("float16", 2.5e-3, 2.6e-3))
        for row in (
            ("16 bits", law(dtype, 1e-7), {}, (2e-2, dtype, False)),
            ("16 bits, at float32's bound", law(dtype, 1e-6), {}, (2e-2, dtype, False)),
            ("16 bits, too far", law(dtype, 0.1), {}, (2e-2, dtype, False)),
            (
                "16 bits explain it",
                law(dtype, 1e-3),
                {"half": law("float64", 1e-12)},
                (2e-2, dtype, False),
            ),
            (
                "16 bits explain it, at the bound",
                law(dtype, bound),
                {"half": law("float32", 1e-6)},
                (2e-2, dtype, False),
            ),
            (
                "16 bits would explain less",
                law(dtype, beyond or 1.0),
                {"half": law("float32", 1e-6)},
                (2e-2, dtype, False, "doubt"),
            ),
            (
                "16 bits do not explain it",
                law(dtype, 1e-3),
                {"half": law("float32", 1e-3)},
                (1e-6, dtype, True),
            ),
            (
                "16 bits stay",
                law(dtype, 1e-3),
                {"half": law(dtype, 1e-3)},
                (2e-2, dtype, False, "doubt"),
            ),
            (
                "16 bits, unliftable",
                law(dtype, 1e-3),
                {"half": STOPPED},
                (2e-2, dtype, False, "doubt"),
            ),
        )
        if beyond is not None or row[0] != "16 bits would explain less"
    ),
]


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

    held = assess_precision(compare, None)
    assert (held.tolerance, held.dtype, held.lifted) == due[:3]
    assert bool(held.doubt) == (len(due) == 4)
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
        assess_precision(compare, None)


@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 0.5])
def test_a_tolerance_that_is_given_is_the_one(tolerance):
    held = assess_precision(lambda lift: law("bfloat16", 1e-3), tolerance)
    assert (held.tolerance, held.dtype, held.lifted) == (tolerance, "bfloat16", False)


def test_what_was_not_run_or_lost_is_no_deviation():
    assert certain_deviation(law("float64", 0.25)) == 0.25
    assert certain_deviation(law("float64", 0.0, pruned=0.25)) == 0.0
    assert certain_deviation(law("float64", 0.0, lost=0.25)) == 0.0
    missing = SimpleNamespace(max_abs_deviation=0.5, pruned=0.125, lost=0.0625, excess=0.0)
    assert certain_deviation(missing) == 0.1875


def test_what_was_lost_excuses_nothing_that_is_too_likely():
    assert certain_deviation(law("float64", 0.0, lost=0.25, excess=0.125)) == 0.125
    assert certain_deviation(law("float64", 0.0, pruned=0.0625, lost=0.25, excess=0.125)) == 0.0625


def test_the_coarsest_precision_is_the_one_with_the_largest_tolerance():
    assert coarsest_dtype(set()) == "float64"
    assert coarsest_dtype({"float32"}) == "float32"
    assert coarsest_dtype({"float64", "float32"}) == "float32"
    assert coarsest_dtype({"float32", "bfloat16"}) == "bfloat16"
    assert list(TOLERANCE_BY_DTYPE.values()) == sorted(TOLERANCE_BY_DTYPE.values())
