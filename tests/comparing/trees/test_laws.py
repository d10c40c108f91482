"""Exact laws of rules on draft trees, each by two ways; a wrong step or node is noticed."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simverify.comparing import trees as whole
from simverify.comparing.curves import sampled_curve
from simverify.comparing.tree_bounds import chain_curve, gbv_curve, tree_curve, tree_sample
from simverify.comparing.trees import StateRows, closed_form_walk, enumerate_law, enumerate_walk
from simverify.models import MarkovModel, get_model
from simverify.trees import SCHEMES, Drafting, DraftTree, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS, get_tree_verifier
from simverify.verifiers.trees.base import walk_rule

SHAPES = {
    "[2]": shape_of_levels([2]),
    "[1,2]": shape_of_levels([1, 2]),
    "[2,2]": shape_of_levels([2, 2]),
    "uneven": TreeShape((-1, -1, 0, 0, 2)),
}

GIVEN = {
    ("toy", "[2]", "naive"): "7/9",
    ("toy", "[2]", "recursive"): "7/9",
    ("toy", "[2]", "match"): "2/3",
    ("toy", "[2]", "tournament"): "8/9",
    ("toy", "[2]", "traversal"): "7/9",
    ("toy", "[1,2]", "traversal"): "34/27",
    ("toy", "[2,2]", "traversal"): "118/81",
}
"""E[tau] on trees of independent siblings: Weng et al. 2025 and others, by hand."""


def drafting(shape, scheme="iid"):
    return Drafting(SHAPES.get(shape, shape), SCHEMES[scheme])


def found(model, rule, drafted):
    return tree_curve(get_tree_verifier(rule), drafted, model, StateRows.of(model))


@pytest.mark.parametrize(("model", "shape", "rule"), GIVEN)
def test_expected_tokens_are_the_known_fractions(model, shape, rule):
    law = found(get_model(model), rule, drafting(shape))
    assert law.curve.fraction == Fraction(GIVEN[model, shape, rule])
    assert law.check.tv == 0


def test_traversal_on_chains_is_enclosed_where_trees_are_too_many():
    drafted, model = drafting(shape_of_levels([2, 1, 1, 1])), get_model("markov-8")
    curve = found(model, "traversal", drafted).curve
    assert curve.method == "dp"
    assert 0 < curve.expected_upper - curve.expected_lower < 1e-5
    means = tree_sample(get_tree_verifier("traversal"), drafted, StateRows.of(model), 0)
    wide = sampled_curve(means, 4)
    assert wide.expected_lower < curve.expected < wide.expected_upper
    other = found(model, "recursive", drafted).curve
    assert not wide.expected_lower < other.expected < wide.expected_upper


@pytest.mark.parametrize(
    ("k", "gamma", "expected"),
    [(2, 1, "8/9"), (2, 2, "131/81"), (2, 3, "1621/729"), (3, 1, "26/27")],
)
def test_greedy_multi_path_block(k, gamma, expected):
    """By enumeration where trees are few, and by the law of the chosen chain alone."""
    model = get_model("toy")
    drafted = drafting(shape_of_levels([k] + [1] * (gamma - 1)))
    law = found(model, "gbv", drafted)
    assert law.curve.fraction == Fraction(expected)
    assert gbv_curve(model, drafted, StateRows.of(model)).fraction == Fraction(expected)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", ["[2]", "[2,2]", "uneven"])
@pytest.mark.thorough
def test_the_ways_to_a_law_agree(shape, scheme, monkeypatch):
    """Whole trees and coins, single steps, closed forms: the same fractions, nodes included."""
    model = get_model("toy" if shape == "[2,2]" else "compact")
    monkeypatch.setattr(whole, "MAX_WALKED_TREES", 2000)
    rows, drafted = StateRows.of(model), drafting(shape, scheme)
    compared = 0
    for rule in TREE_VERIFIERS.values():
        if scheme not in rule.schemes or rule.one_step is None or not rule.fits(drafted.shape):
            continue
        if rule.name == "k-seq" and shape == "uneven":
            continue  # rho's long fractions take seconds
        steps = enumerate_walk(rule, drafted, rows)
        assert steps.deviation == 0
        trees = enumerate_law(rule, drafted, rows)
        if trees is not None:
            assert steps.curve == trees.curve
            assert steps.nodes == trees.nodes
            compared += 1
        if (closed := closed_form_walk(rule, drafted, rows)) is not None:
            # K-SEQ's rho is a rounded root: its residual has what the rounding leaves.
            near = pytest.approx(list(map(float, steps.curve)), abs=1e-12)
            assert list(map(float, closed.curve)) == near
            assert rule.name == "k-seq" or closed.curve == steps.curve
            compared += 1
    assert compared


def test_a_lossy_step_is_seen():
    """Negative control: a rule that accepts a rejected sibling's leftovers twice."""
    rows, drafted = StateRows.of(get_model("compact")), drafting("[2]")
    right = get_tree_verifier("recursive")

    def stale(p, q, siblings, rng):
        for x in siblings:
            if rng.random() < p[x] / q[x]:
                return x
        left = np.maximum(p - q, 0)
        return int(rng.choice(len(p), p=left / left.sum()))

    wrong = replace(right, name="stale", rule=walk_rule(stale), one_step=stale, hits={})
    steps = enumerate_walk(wrong, drafted, rows)
    assert steps.deviation > 0.01
    trees = enumerate_law(wrong, drafted, rows)
    assert trees.tv == steps.tv > 0.01
    assert trees.curve == steps.curve


def test_the_law_of_a_walk_grows_with_the_nodes_alone():
    """64 chains of 64 tokens: enumeration would have no end."""
    law = found(get_model("toy"), "recursive", drafting(shape_of_levels([64] + [1] * 63)))
    assert law.curve is not None
    assert law.curve.expected > 2.5


def test_block_is_the_law_of_rules_that_are_block_on_a_chain():
    model = get_model("markov-8")
    chain = drafting(shape_of_levels([1] * 6))
    curves = [found(model, rule, chain).curve for rule in ("traversal", "gbv", "hierarchical")]
    block = chain_curve("block", model, 6)
    for curve in curves:
        assert curve.expected == block.expected


def test_what_nobody_knows_is_not_made_up():
    """Trees of three siblings and of two, as the draft's rows have two tokens or more."""
    model = get_model("markov-64")
    q = model.draft_rows.copy()
    q[::2, 2:] = 0
    narrow = MarkovModel(
        "narrow", model.target_start, model.target_rows,
        model.draft_start, q / q.sum(axis=1, keepdims=True),
    )  # fmt: skip
    drafted = drafting(shape_of_levels([3, 1]), "without-replacement")
    assert found(model, "naive", drafted).curve.sample is not None
    law = found(narrow, "naive", drafted)
    assert law.curve is None
    assert law.nodes is None
    assert law.check is None


def test_the_way_kept_is_the_first_that_has_the_tokens():
    tree = DraftTree(TreeShape((-1, -1, 1)), (4, 4, 5), SCHEMES["iid"])
    assert tree.way_of((4,)) == (0,)
    assert tree.way_of((4, 5)) == (1, 2)
    assert tree.way_of(()) == ()


def test_rows_that_have_too_few_tokens_have_fewer_siblings():
    """A draft of one token, of which no second sibling can be drawn."""
    one = np.array([1.0, 0.0, 0.0])
    p = np.array([0.5, 0.25, 0.25])
    model = MarkovModel("narrow", p, np.tile(p, (3, 1)), one, np.tile(one, (3, 1)))
    drafted = drafting("[2]", "without-replacement")
    law = found(model, "recursive-without-replacement", drafted)
    assert law.curve.expected == pytest.approx(0.5)
    assert law.nodes == pytest.approx((0.5, 0.0))
