"""What one instance may take: a part of the effort that is left, more paths than a rule needs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.told_examiner import instance

from simverify.auditing.exact.budgets import affordable, fair_paths
from simverify.trees import SCHEMES, Drafting, shape_of_levels


@pytest.mark.parametrize(
    ("runs", "effort", "paths"),
    [(0, 0.0, 125), (1, 1.0, 125), (2, 1.0, 250), (1, 2.0, 63), (1, 500.0, 0)],
)
def test_a_fourth_of_what_is_left_at_the_price_of_those_before(runs, effort, paths):
    """Five runs of the code for each of a hundred paths; before the first one a path is a run."""
    assert affordable(100, 100, runs, effort) == paths


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
        assert fair_paths(SimpleNamespace(subject=subject, contract="tree"), model) == fair
