"""The best rule for a tree: closed forms, linear programs and bounds, against each other."""

from fractions import Fraction

import pytest

from simverify.comparing.trees import bounds
from simverify.comparing.trees.bounds import bounds_of
from simverify.comparing.trees.curves import tree_curve
from simverify.comparing.trees.rows import StateRows
from simverify.models import get_model
from simverify.simulators.exact.tree_optimum import coupling_bound, memoryless_optimum
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS


def found(name, levels, scheme="iid"):
    model = get_model(name)
    shape = levels if isinstance(levels, TreeShape) else shape_of_levels(levels)
    return bounds_of(Drafting(shape, SCHEMES[scheme]), model, StateRows.of(model))


@pytest.mark.parametrize(
    ("levels", "memoryless", "coupling"),
    [([2], "8/9", "8/9"), ([1, 2], "35/27", "4/3"), ([2, 2], "1271/729", "16/9")],
)
def test_toy(levels, memoryless, coupling):
    best = found("toy", levels)
    assert best.memoryless.value == pytest.approx(float(Fraction(memoryless)), abs=1e-9)
    assert best.coupling.value == pytest.approx(float(Fraction(coupling)), abs=1e-9)
    assert not best.memoryless.bound
    assert best.memoryless.by == ("closed-form" if len(levels) == 1 else "linear-programme")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("levels", [[2], [1, 1, 1], [2, 1], TreeShape((-1, -1, 0))])
@pytest.mark.thorough
def test_closed_forms_are_the_linear_programs(scheme, levels):
    """Chains, single levels and certain drafts; and no bound on a level is below a rule."""
    model = get_model("compact")
    best = found("compact", levels, scheme)
    shape = levels if isinstance(levels, TreeShape) else shape_of_levels(levels)
    drafting = Drafting(shape, SCHEMES[scheme])
    program = memoryless_optimum(drafting, model.target, model.draft)
    coupling = coupling_bound(drafting, model.target, model.draft)
    assert best.memoryless.value == pytest.approx(program.value, abs=1e-8)
    assert best.coupling.value == pytest.approx(coupling.value, abs=1e-8)
    assert (best.of_any or best.levels).expected_upper >= coupling.value - 1e-8
    assert best.levels.expected_upper >= program.value - 1e-8
    rows = StateRows.of(model)
    for rule in TREE_VERIFIERS.values():
        if rule.name == "k-seq" or scheme not in rule.schemes or not rule.fits(shape):
            continue
        law = tree_curve(rule, drafting, model, rows).curve
        assert law.expected <= best.memoryless.value + 1e-8
        assert (law.lower <= best.levels.upper + 1e-12).all()


@pytest.mark.parametrize("scheme", ["iid", "without-replacement", "last-sampled", "argmax-first"])
def test_where_trees_are_many_a_bound_says_so(scheme, monkeypatch):
    """The bound by counting is never below the program that it stands in for."""
    sure = found("compact", [2, 1], scheme)
    monkeypatch.setattr(bounds, "MAX_TEXTS", 1)
    counted = found("compact", [2, 1], scheme)
    assert counted.memoryless.bound
    assert counted.memoryless.by == "counting"
    assert counted.memoryless.value >= sure.coupling.value - 1e-9
    monkeypatch.setattr(bounds, "MAX_COUNTED", 1)
    scaled = found("compact", [2, 1], scheme)
    assert scaled.memoryless.value >= counted.memoryless.value - 1e-9
    monkeypatch.setattr(bounds, "MAX_SIBLINGS", 1)
    assert found("compact", [2, 1], scheme).memoryless.value >= scaled.memoryless.value - 1e-9


def test_at_size_two_drafts_have_a_bound_between_one_drafts_and_all():
    best = found("markov-64", [2, 1, 1, 1])
    one = found("markov-64", [1, 1, 1, 1])
    assert best.memoryless.bound
    assert not one.memoryless.bound
    assert one.coupling.value < best.memoryless.value < 4
