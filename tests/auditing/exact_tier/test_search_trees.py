"""Rules for draft trees and drafters that are wrong beyond the fixed instances, and are found."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.told_examiner import instance

from simverify.auditing.coverage import find_reachable
from simverify.auditing.exact_tier import (
    affordable_paths,
    finite_path_bound,
    next_token_branches,
    run_exact_tier,
)
from simverify.auditing.instances import tree_instances
from simverify.auditing.run import exact_instances
from simverify.auditing.search import (
    LiteralHints,
    SearchSpace,
    literal_tree_instances,
    search_failure,
    smallest_failure,
)
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import get_tree_verifier

# What one instance may take: a part of the effort that is left, more paths than a rule needs.


@pytest.mark.parametrize(
    ("runs", "effort", "paths"),
    [(0, 0.0, 125), (1, 1.0, 125), (2, 1.0, 250), (1, 2.0, 63), (1, 500.0, 0)],
)
def test_a_fourth_of_what_is_left_at_the_price_of_those_before(runs, effort, paths):
    """Five runs of the code for each of a hundred paths; before the first one a path is a run."""
    assert affordable_paths(100, 100, runs, effort) == paths


def of_tree(p, q, tokens, parents, rng):
    """A rule that is given a tree."""


class Keeps:
    """An object, which drafts its trees itself."""


@pytest.mark.parametrize(
    ("vocab", "levels", "paths"),
    [(2, (1,), 1_000 + 2 * 40), (4, (1, 1), 1_000 + 16 * 64), (8, (1, 1), 1_000 + 64 * 300)],
)
def test_each_tree_has_as_many_paths_as_tokens_can_be_drawn_on_it(vocab, levels, paths):
    """Forty at least, three hundred at most; of an object that keeps something, twice as many."""
    drafting = Drafting(shape_of_levels(levels), SCHEMES["iid"])
    model = replace(instance("tree", vocab, len(levels)), drafting=drafting)
    for rule, fair in ((of_tree, paths), (Keeps, 2 * paths)):
        subject = SimpleNamespace(coin_bits=None, rule=rule)
        assert finite_path_bound(SimpleNamespace(subject=subject, contract="tree"), model) == fair


ROWS = {(): (0.5, 0.25, 0.25), (1,): (0.25, 0.5, 0.25)}


def law():
    rng = np.random.default_rng(1)
    table = rng.random((3, 3, 3))
    return table / table.sum()


def test_every_token_at_every_place_with_what_is_emitted_and_due():
    table = law()
    found = {b.sequence: b for b in next_token_branches(table, lambda x: np.array(ROWS[x]), (1, 2))}
    assert list(found) == [(0,), (1,), (2,), (1, 0), (1, 1), (1, 2)]
    for sequence, branch in found.items():
        rest = itertools.product(range(3), repeat=3 - len(sequence))
        assert branch.probability_emitted == pytest.approx(
            sum(table[sequence + tokens] for tokens in rest)
        )
    due = {sequence: branch.probability_expected for sequence, branch in found.items()}
    assert due == {
        (0,): 0.5,
        (1,): 0.25,
        (2,): 0.25,
        (1, 0): 0.0625,
        (1, 1): 0.125,
        (1, 2): 0.0625,
    }


def test_the_whole_output_is_the_last_place():
    table = law()
    last = next_token_branches(table, lambda _: np.array([0.5, 0.25, 0.25]), (2, 0, 1))[-2]
    assert last.sequence == (2, 0, 1)
    assert last.probability_emitted == table[2, 0, 1]
    assert last.probability_expected == 0.25 * 0.5 * 0.25


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
    found = find_reachable(rule).numbers if numbers is None else numbers
    hints = LiteralHints.among(found, contract, 4, 12)
    models = literal_tree_instances(hints, SCHEMES[scheme], contract)
    subject = Subject("mine", rule, None)
    return run_exact_tier(subject, contract, models, tolerance=None, searching=searching)


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

    within = SearchSpace(4, 3, SCHEMES["iid"])
    first = search_failure(fails, within, examples=200, seed=0)
    assert fails(first)
    found = smallest_failure(fails, within, examples=200, seed=0)
    assert (found.vocab_size, len(found.drafting.shape)) == (2, 3)
    assert found.drafting.scheme is SCHEMES["iid"]
    for search in (search_failure, smallest_failure):
        assert search(lambda model: False, within, examples=20, seed=0) is None


@pytest.mark.parametrize("search", [search_failure, smallest_failure])
def test_a_search_keeps_to_the_shapes_that_the_code_takes(search):
    seen = []

    def fails(model):
        seen.append(model.drafting.shape)
        return False

    chains = SearchSpace(3, 4, SCHEMES["iid"], fits=lambda s: s.is_chain)
    search(fails, chains, examples=20, seed=0)
    assert seen
    assert all(shape.is_chain for shape in seen)
    seen.clear()
    one = shape_of_levels([2, 1])
    search(fails, SearchSpace(3, 2, SCHEMES["iid"], shape=one), examples=5, seed=0)
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
    assert run_exact_tier(subject, "tree", models, tolerance=None, searching=False).failure is None
    failure = run_exact_tier(subject, "tree", models, tolerance=None).failure
    assert failure.model.name.startswith("found")
    parents = failure.model.drafting.shape.parents
    assert (parents.count(-1), parents[:3]) == (1, (-1, 0, 0))


def test_a_shape_that_was_named_is_the_only_one():
    settings = AuditSettings(gamma=2, vocab=3, scheme="iid", tree="2")
    subject = Subject("mine", rule_of("never", "iid"), None)
    hints = LiteralHints.among({5, 11}, "tree", 2, 3)
    models = exact_instances(subject, "tree", SCHEMES["iid"], settings, hints)
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
