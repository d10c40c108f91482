"""Means over drawn trees hold the exact laws, and not those of another rule."""

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair

from simverify.comparing.exact.curves import sample_bounds
from simverify.comparing.trees.curves import tree_curve
from simverify.comparing.trees.rao_blackwell import tree_sample
from simverify.comparing.trees.rows import StateRows
from simverify.models import MarkovModel, get_model
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import get_tree_verifier

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
