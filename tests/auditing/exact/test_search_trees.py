"""Rules for draft trees and drafters that are wrong beyond the fixed instances, and are found."""

import numpy as np
import pytest

from simverify.auditing.calling import instances_of
from simverify.auditing.coverage.reach import reach_of
from simverify.auditing.exact.instances.hinted import Hints
from simverify.auditing.exact.instances.hinted_trees import hinted_trees
from simverify.auditing.exact.instances.trees import tree_instances
from simverify.auditing.exact.search import Within, search
from simverify.auditing.exact.tier import examine
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.trees import SCHEMES, shape_of_levels
from simverify.verifiers.trees import get_tree_verifier


def depths(parents):
    found = []
    for parent in parents.tolist():
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


WRONG = {
    "never": lambda p, tokens, parents: False,
    "V of 7 and more": lambda p, tokens, parents: p.shape[1] >= 7,
    "V of 9": lambda p, tokens, parents: p.shape[1] == 9,
    "a node of 5 children": lambda p, tokens, parents: 5 in np.bincount(parents + 1),
    "depth 5": lambda p, tokens, parents: max(depths(parents)) == 5,
    "token 11": lambda p, tokens, parents: 11 in tokens,
    "9 nodes": lambda p, tokens, parents: len(tokens) == 9,
}


def rule_of(when, scheme):
    right = get_tree_verifier(
        "recursive" if scheme == "iid" else "recursive-without-replacement"
    ).rule
    wrong = WRONG[when]

    def tree(target_probs, draft_probs, tokens, parents, rng):
        if wrong(target_probs, tokens, parents):
            return [int(rng.choice(len(draft_probs[0]), p=draft_probs[0]))]
        return right(target_probs, draft_probs, tokens, parents, rng)

    return tree


def tier_of(rule, contract, scheme, *, numbers=None, searching=False):
    """Judge the instances that are made for the code's numbers alone."""
    found = reach_of(rule).numbers if numbers is None else numbers
    hints = Hints.among(found, contract, 4, 12)
    models = hinted_trees(hints, SCHEMES[scheme], contract)
    subject = Subject("mine", rule, None)
    return examine(subject, contract, models, tolerance=None, searching=searching)


@pytest.mark.parametrize("when", WRONG)
@pytest.mark.thorough
def test_what_a_number_in_the_code_hides_is_found(when):
    tier = tier_of(rule_of(when, "iid"), "tree", "iid")
    if when == "never":
        assert (tier.failure, tier.not_enumerable) == (None, None)
        return
    assert tier.failure is not None
    assert tier.failure.comparison.tv > 1e-3


@pytest.mark.parametrize(
    ("when", "number"), [("never", 5), ("a node of 5 children", 5), ("V of 9", 9)]
)
@pytest.mark.thorough
def test_siblings_that_differ_are_drafted_for_it_too(when, number):
    scheme = "without-replacement"
    tier = tier_of(rule_of(when, scheme), "tree", scheme, numbers={number})
    assert (tier.failure is None) == (when == "never")


def test_without_the_number_it_is_not_reached():
    # The control: it is the hint that leads there, not luck.
    tier = tier_of(rule_of("depth 5", "iid"), "tree", "iid", numbers={4})
    assert tier.failure is not None  # a chain of 4 and the next, of 5
    assert tier_of(rule_of("depth 5", "iid"), "tree", "iid", numbers={3}).failure is None


def drafter(when):
    def draft(prefix, draft_row, k, rng):
        if when(prefix, draft_row, k):
            return [int(draft_row.argmax())] * k, draft_row
        return rng.choice(len(draft_row), size=k, p=draft_row), draft_row

    return draft


@pytest.mark.parametrize(
    ("when", "fails"),
    [
        (lambda prefix, row, k: k == 3 and len(row) == 9, True),
        (lambda prefix, row, k: len(prefix) == 40, True),
        (lambda prefix, row, k: k == 6, True),
        (lambda prefix, row, k: k == 3 and len(row) == 9 and len(prefix) == 900, False),
    ],
)
@pytest.mark.thorough
def test_drafters_are_called_at_their_numbers(when, fails):
    tier = tier_of(drafter(when), "draft", "iid")
    assert (tier.failure is not None) == fails
    assert tier.not_enumerable is None


def test_a_search_draws_trees_and_shrinks_them():
    def fails(model):
        shape = model.drafting.shape
        return len(shape) >= 3 and max(map(len, shape.children.values())) == 2

    within = Within(4, 3, SCHEMES["iid"])
    found = search(fails, within, examples=200, seed=0)
    assert (found.vocab_size, len(found.drafting.shape)) == (2, 3)
    assert found.drafting.scheme is SCHEMES["iid"]
    assert search(lambda model: False, within, examples=20, seed=0) is None


def test_a_search_keeps_to_the_shapes_that_the_code_takes():
    seen = []

    def fails(model):
        seen.append(model.drafting.shape)
        return False

    search(fails, Within(3, 4, SCHEMES["iid"], fits=lambda s: s.is_chain), examples=20, seed=0)
    assert seen
    assert all(shape.is_chain for shape in seen)
    seen.clear()
    one = shape_of_levels([2, 1])
    search(fails, Within(3, 2, SCHEMES["iid"], shape=one), examples=5, seed=0)
    assert set(seen) == {one}


@pytest.mark.thorough
def test_after_a_clean_battery_trees_are_searched():
    # Wrong at the third of three nodes below each other where the root has another child too.
    right = get_tree_verifier("recursive").rule

    def tree(target_probs, draft_probs, tokens, parents, rng):
        if parents.tolist().count(-1) == 1 and parents.tolist().count(0) > 1:
            return [int(rng.choice(len(draft_probs[0]), p=draft_probs[0]))]
        return right(target_probs, draft_probs, tokens, parents, rng)

    scheme = SCHEMES["iid"]
    models = tree_instances(scheme, 2, 2, 0, shape_of_levels([2])) + tree_instances(
        scheme, 2, 2, 0, shape_of_levels([1, 1])
    )
    subject = Subject("mine", tree, None)
    assert examine(subject, "tree", models, tolerance=None, searching=False).failure is None
    failure = examine(subject, "tree", models, tolerance=None).failure
    assert failure.model.name.startswith("found")
    parents = failure.model.drafting.shape.parents
    assert (parents.count(-1), parents[:3]) == (1, (-1, 0, 0))


def test_a_shape_that_was_named_is_the_only_one():
    settings = AuditSettings(gamma=2, vocab=3, scheme="iid", tree="2")
    subject = Subject("mine", rule_of("never", "iid"), None)
    hints = Hints.among({5, 11}, "tree", 2, 3)
    models = instances_of(subject, "tree", SCHEMES["iid"], settings, hints)
    assert {model.drafting.shape for model in models} == {shape_of_levels([2])}
    assert 13 in {model.vocab_size for model in models}


def test_fractions_lead_to_rows_on_either_side():
    share = 0.7
    right = get_tree_verifier("recursive").rule

    def tree(target_probs, draft_probs, tokens, parents, rng):
        p, q = target_probs[0], draft_probs[0]
        if share - 0.004 < p[tokens[0]] / q[tokens[0]] < share:
            return [int(tokens[0]), int(rng.choice(len(p), p=target_probs[1]))]
        return right(target_probs, draft_probs, tokens, parents, rng)

    assert tier_of(tree, "tree", "iid", numbers={share}).failure is not None
    assert tier_of(tree, "tree", "iid", numbers={0.9}).failure is None
