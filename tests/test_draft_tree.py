"""Draft trees: their shape, what they refuse, and with which probability they are drawn."""

from fractions import Fraction

import numpy as np
import pytest
from support.oracles.tree_laws import fraction_rows

from simverify.errors import UsageError
from simverify.models.base import compact
from simverify.symbolic.paths import TooManyPaths
from simverify.trees import (
    ROOT,
    SCHEMES,
    Drafting,
    DraftTree,
    TreeShape,
    draw_tree,
    enumerate_trees,
    get_scheme,
    shape_of_levels,
)


def test_levels():
    shape = shape_of_levels([2, 1, 1])
    assert shape.parents == (-1, -1, 0, 1, 2, 3)
    assert shape.depths == (1, 1, 2, 2, 3, 3)
    assert shape.children[ROOT] == (0, 1)
    assert shape.children[3] == (5,)
    assert shape.way(4) == (0, 2, 4)
    assert (shape.depth, shape.is_chain) == (3, False)
    assert shape_of_levels([1, 1]).is_chain


@pytest.mark.parametrize(
    ("parents", "why"),
    [
        ((), "0 nodes: expected 1 to"),
        ((-1, 1), "its own parent"),
        ((-1, 2, 0), "comes later: put parents before"),
        ((-1, 7), "no node: expected -1"),
        ((-2,), "no node: expected -1"),
        ((-1, 0.5), "expected an integer"),
        ((-1, True), "expected an integer"),
    ],
)
def test_parents_that_make_no_tree(parents, why):
    with pytest.raises(UsageError, match=why):
        TreeShape(parents)


@pytest.mark.parametrize("levels", [[], [0], [2, -1], [70, 70]])
def test_levels_that_make_no_tree(levels):
    with pytest.raises(UsageError, match="tree"):
        shape_of_levels(levels)


@pytest.mark.parametrize(
    ("tokens", "scheme", "why"),
    [
        ((0, 1), "iid", "2 tokens on a tree of 3 nodes"),
        ((0, 1, -1), "iid", "expected an integer from 0"),
        ((0, 1, "a"), "iid", "expected an integer from 0"),
        ((1, 1, 0), "without-replacement", r"children of the root are \[1, 1\]"),
    ],
)
def test_tokens_that_make_no_draft(tokens, scheme, why):
    with pytest.raises(UsageError, match=why):
        DraftTree(shape_of_levels([2]) if len(tokens) < 2 else TreeShape((-1, -1, 0)), tokens,
                  SCHEMES[scheme])  # fmt: skip


def test_independent_siblings_may_be_equal():
    assert DraftTree(TreeShape((-1, -1)), (1, 1), SCHEMES["iid"]).siblings == {ROOT: (1, 1)}


ROWS = np.array([[0.5, 0.3, 0.2], [0.0, 0.6, 0.4], [0.1, 0.1, 0.8]])


@pytest.mark.parametrize(
    ("tokens", "scheme", "why"),
    [
        ((0, 0), "iid", "of which q is 0"),
        ((0, 3), "iid", r"token of node 1 is 3: expected 0\.\.2"),
        ((1, 1), "top-k", r"begins with \(1,\), and the likeliest of q are \(0,\)"),
        ((1, 1), "argmax-first", "likeliest"),
    ],
)
def test_drafts_that_their_rows_cannot_give(tokens, scheme, why):
    tree = DraftTree(TreeShape((-1, 0)), tokens, SCHEMES[scheme])
    with pytest.raises(UsageError, match=why):
        tree.checked(ROWS, vocab_size=3)


def test_rows_and_depth_are_checked():
    tree = DraftTree(TreeShape((-1, 0)), (0, 1), SCHEMES["iid"])
    assert tree.checked(ROWS, vocab_size=3, gamma=2) is tree
    with pytest.raises(UsageError, match="depth of 2, above gamma 1"):
        tree.checked(ROWS, vocab_size=3, gamma=1)
    with pytest.raises(UsageError, match=r"shape \(2, 3\): expected \(3, 3\)"):
        tree.checked(ROWS[:2], vocab_size=3)


def test_unknown_scheme():
    with pytest.raises(UsageError, match="did you mean 'top-k'"):
        get_scheme("topk")


Q = np.array([Fraction(n, 10) for n in (5, 3, 2)], dtype=object)

LAWS = {
    "iid": {(0, 1): Fraction(15, 100), (1, 1): Fraction(9, 100)},
    "without-replacement": {(0, 1): Fraction(5, 10) * Fraction(3, 5), (2, 1): Fraction(3, 40)},
    "top-k": {(0, 1): 1},
    "argmax-first": {(0, 1): Fraction(3, 5), (0, 2): Fraction(2, 5)},
    "last-sampled": {(0, 1): Fraction(3, 5), (0, 2): Fraction(2, 5)},
}


@pytest.mark.parametrize("name", SCHEMES)
def test_laws_of_two_siblings(name):
    law = SCHEMES[name].law(Q, 2)
    assert sum(law.values()) == 1
    assert {siblings: law[siblings] for siblings in LAWS[name]} == LAWS[name]
    assert all(SCHEMES[name].forbids(Q, siblings) is None for siblings in law)


def test_schemes_of_three_differ():
    assert set(SCHEMES["argmax-first"].law(Q, 3)) == {(0, 1, 2), (0, 2, 1)}
    assert set(SCHEMES["last-sampled"].law(Q, 3)) == {(0, 1, 2)}


def test_too_few_tokens_are_fewer_siblings():
    one = np.array([0, Fraction(1), 0], dtype=object)
    assert SCHEMES["without-replacement"].law(one, 2) == {(1,): 1}
    assert SCHEMES["iid"].law(one, 2) == {(1, 1): 1}
    assert SCHEMES["top-k"].law(one, 2) == {(1, 0): 1}


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_law_of_trees(scheme):
    _, draft = fraction_rows(compact())
    shape = shape_of_levels([2, 1])
    law = enumerate_trees(Drafting(shape, scheme), draft)
    assert sum(mass for _, mass in law) == 1
    for tree, mass in law:
        rows = tree.rows(draft)
        assert tree.checked(rows, vocab_size=3) is tree
        expected = 1
        for parent, siblings in tree.siblings.items():
            expected = expected * scheme.law(rows[parent + 1], len(siblings))[siblings]
        assert mass == expected


def test_missing_siblings_take_what_is_below_them_along():
    rows = {(): [0.0, 1.0], (1,): [0.5, 0.5]}
    tree = draw_tree(
        Drafting(shape_of_levels([2, 1]), SCHEMES["without-replacement"]),
        lambda text: np.array(rows[text]), np.random.default_rng(0),
    )  # fmt: skip
    assert tree.shape.parents == (-1, 0)
    assert tree.tokens[0] == 1


def test_a_budget_of_trees():
    _, draft = fraction_rows(compact())
    drafting = Drafting(shape_of_levels([3]), SCHEMES["iid"])
    with pytest.raises(TooManyPaths):
        enumerate_trees(drafting, draft, max_trees=26)
    assert len(enumerate_trees(drafting, draft, max_trees=27)) == 27
