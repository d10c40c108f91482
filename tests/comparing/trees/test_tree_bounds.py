"""Means over drawn trees hold the exact laws, and not those of another rule."""

from fractions import Fraction

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair

from simverify.comparing import tree_bounds
from simverify.comparing.curves import sample_bounds
from simverify.comparing.tree_bounds import compute_tree_bounds, tree_curve, tree_sample
from simverify.comparing.trees import StateRows
from simverify.models import MarkovModel, get_model
from simverify.simulators.exact.bounds import coupling_bound, memoryless_optimum
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS, get_tree_verifier

# The best rule for a tree: closed forms, linear programs and bounds, against each other.


def found(name, levels, scheme="iid"):
    model = get_model(name)
    shape = levels if isinstance(levels, TreeShape) else shape_of_levels(levels)
    return compute_tree_bounds(Drafting(shape, SCHEMES[scheme]), model, StateRows.of(model))


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
    monkeypatch.setattr(tree_bounds, "MAX_TEXTS", 1)
    counted = found("compact", [2, 1], scheme)
    assert counted.memoryless.bound
    assert counted.memoryless.by == "counting"
    assert counted.memoryless.value >= sure.coupling.value - 1e-9
    monkeypatch.setattr(tree_bounds, "MAX_COUNTED_PAIRS", 1)
    scaled = found("compact", [2, 1], scheme)
    assert scaled.memoryless.value >= counted.memoryless.value - 1e-9
    monkeypatch.setattr(tree_bounds, "MAX_SIBLING_ORDERS", 1)
    assert found("compact", [2, 1], scheme).memoryless.value >= scaled.memoryless.value - 1e-9


def test_at_size_two_drafts_have_a_bound_between_one_drafts_and_all():
    best = found("markov-64", [2, 1, 1, 1])
    one = found("markov-64", [1, 1, 1, 1])
    assert best.memoryless.bound
    assert not one.memoryless.bound
    assert one.coupling.value < best.memoryless.value < 4


SHAPES = {
    "[2,1]": shape_of_levels([2, 1]),
    "[3]": shape_of_levels([3]),
    "[2,2]": shape_of_levels([2, 2]),
    "uneven": TreeShape((-1, -1, 0, 0, 2)),
}


def scheme(rule):
    return SCHEMES["without-replacement" if rule.endswith("without-replacement") else "iid"]


def sampled(rule, shape, model):
    drafted = Drafting(SHAPES[shape], scheme(rule))
    return tree_sample(get_tree_verifier(rule), drafted, StateRows.of(model), seed=3)


def exact(rule, shape, model):
    drafted = Drafting(SHAPES[shape], scheme(rule))
    return tree_curve(get_tree_verifier(rule), drafted, model, StateRows.of(model)).curve


def inside(sample, curve):
    lower, upper = sample_bounds(sample, ALPHA)
    return bool(((lower <= curve.middle) & (curve.middle <= upper)).all())


@pytest.mark.parametrize("model", ["toy", "compact"])
@pytest.mark.parametrize(
    ("rule", "shape"),
    [(rule, shape) for rule in ("traversal", "gbv") for shape in ("[2,1]", "[3]")]
    + [
        (rule, shape)
        for rule in ("traversal", "traversal-without-replacement")
        for shape in ("[2,2]", "uneven")
    ],
)
@pytest.mark.thorough
def test_the_exact_law_is_inside(rule, shape, model):
    pair = get_model(model)
    assert inside(sampled(rule, shape, pair), exact(rule, shape, pair))


WALKS = [
    ("naive", "iid"),
    ("naive", "without-replacement"),
    ("greedy-draft", "iid"),
    ("greedy-draft", "without-replacement"),
    ("greedy-draft", "last-sampled"),
    ("recursive-without-replacement", "without-replacement"),
    ("match", "argmax-first"),
    ("fixed-tree", "without-replacement"),
]


@pytest.mark.parametrize(("rule", "scheme"), WALKS)
@pytest.mark.parametrize("shape", ["[3]", "uneven"])
def test_the_exact_law_of_a_walk_is_inside(rule, scheme, shape):
    """And that of the same rule on other siblings is not, where it differs by a hundredth."""
    pair, verifier = random_pair(5, 4), get_tree_verifier(rule)
    rows = StateRows.of(pair)
    drafted = Drafting(SHAPES[shape], SCHEMES[scheme])
    law = tree_curve(verifier, drafted, pair, rows).curve
    sample = tree_sample(verifier, drafted, rows, seed=3)
    assert inside(sample, law)
    for other in set(verifier.schemes) - {scheme}:
        wrong = tree_curve(verifier, Drafting(SHAPES[shape], SCHEMES[other]), pair, rows).curve
        if abs(wrong.middle - law.middle).max() > 0.01:
            assert not inside(sample, wrong)


@pytest.mark.parametrize(
    ("rule", "law"), [("naive", "match"), ("greedy-draft", "naive"), ("match", "greedy-draft")]
)
def test_the_law_of_another_walk_is_outside(rule, law):
    pair = random_pair(5, 4)
    assert not inside(sampled(rule, "[3]", pair), exact(law, "[3]", pair))


@pytest.mark.parametrize("pair", [one_hot_pair(), disjoint_pair(), equal_pair()])
@pytest.mark.parametrize("rule", ["naive", "greedy-draft", "match"])
def test_walks_on_rows_with_little_in_common(rule, pair):
    with np.errstate(all="raise"):
        assert inside(sampled(rule, "[2,2]", pair), exact(rule, "[2,2]", pair))


def test_the_law_of_another_rule_is_outside():
    pair = get_model("compact")
    assert not inside(sampled("gbv", "[2,1]", pair), exact("traversal", "[2,1]", pair))
    assert not inside(sampled("traversal", "[2,1]", pair), exact("recursive", "[2,1]", pair))


def test_tokens_without_mass_are_never_drawn():
    q = np.array([0.5, 0.5, 0.0])
    p = np.array([0.25, 0.25, 0.5])
    model = MarkovModel("gap", p, np.tile(p, (3, 1)), q, np.tile(q, (3, 1)))
    with np.errstate(all="raise"):
        for rule in ("traversal", "gbv"):
            assert inside(sampled(rule, "[2,1]", model), exact(rule, "[2,1]", model))


def test_rules_and_schemes_without_means_have_none():
    rows = StateRows.of(get_model("toy"))
    iid = Drafting(SHAPES["[3]"], SCHEMES["iid"])
    assert tree_sample(get_tree_verifier("k-seq"), iid, rows, 0) is None
    # Three siblings of two tokens: trees would differ in shape.
    without = Drafting(SHAPES["[3]"], SCHEMES["without-replacement"])
    rule = get_tree_verifier("traversal-without-replacement")
    assert tree_sample(rule, without, rows, 0) is None
