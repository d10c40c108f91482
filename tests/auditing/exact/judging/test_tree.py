"""Laws of sequences of different lengths: completed by the target, and how far two are apart."""

import math

import numpy as np
import pytest

from simverify.auditing.exact.judging.tree import (
    Cell,
    Tree,
    cells,
    distance,
    gaps_by_position,
    probability,
    target_tree,
)

ROWS = {None: (1 / 2, 1 / 2), 0: (3 / 4, 1 / 4), 1: (1 / 4, 3 / 4)}


def row(tokens):
    """The target's row, by the last token."""
    return np.array(ROWS[tokens[-1] if tokens else None])


TARGET = target_tree(row)

# Laws, the TV from the target of their first one, two and three tokens, and the sequence that is
# furthest off: its tokens, its probability, and the one that is due. All numbers are exact.
LAWS = {
    "the target, at once": (Tree({(): 1.0}, row, {}), [0], ((), 1, 1)),
    "the target, token by token": (
        Tree({(0,): 1 / 2, (1, 0): 1 / 8, (1, 1): 3 / 8}, row, {}), [0, 0], ((0,), 1 / 2, 1 / 2),
    ),
    "another first token": (
        Tree({(0,): 3 / 4, (1,): 1 / 4}, row, {}), [1 / 4], ((0,), 3 / 4, 1 / 2),
    ),
    "another second token": (
        Tree({(0,): 1 / 4, (1, 1): 1 / 4}, row, {(0, 1): 1 / 4, (1, 0): 1 / 4}),
        [0, 5 / 16], ((0, 0), 3 / 16, 3 / 8),
    ),
    "nothing known after 0": (
        Tree({(1, 0): 1 / 2, (1, 1): 1 / 4}, row, {(0,): 1 / 4}),
        [1 / 4, 3 / 8], ((1, 0), 1 / 2, 1 / 8),
    ),
    "nothing known after 0, and after 1, 0": (
        Tree({(1, 1, 0): 1 / 4}, row, {(0,): 1 / 4, (1, 0): 1 / 2}),
        [1 / 4, 3 / 8, 17 / 32], ((1, 0), 1 / 2, 1 / 8),
    ),
    "nothing known after 0, where some is told": (
        Tree({(0, 1): 1 / 8, (1,): 1 / 2}, row, {(0,): 3 / 8}), [0], ((0,), 1 / 2, 1 / 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("law", "tvs", "furthest"), LAWS.values(), ids=LAWS)
def test_each_position_is_as_far_from_the_target_as_the_table_says(law, tvs, furthest):
    found, worst = gaps_by_position(law, TARGET)
    assert found == tvs
    assert (worst.tokens, worst.one, worst.other) == furthest
    assert distance(law, TARGET) == tvs[-1]
    # Neither law is the first: cells are the same, with their numbers the other way round.
    found, worst = gaps_by_position(TARGET, law)
    assert found == tvs
    assert (worst.tokens, worst.other, worst.one) == furthest


@pytest.mark.parametrize("law", [law for law, *_ in LAWS.values()], ids=LAWS)
def test_the_last_cells_part_both_laws(law):
    last = [cell for cell, is_last in cells(law, TARGET) if is_last]
    assert sum(cell.one for cell in last) == sum(cell.other for cell in last) == 1
    # In the order of their tokens, so that of two that are equally far off the first is shown.
    assert [cell.tokens for cell in last] == sorted(cell.tokens for cell in last)


def test_two_laws_are_parted_no_further_than_both_know():
    one = Tree({(1,): 1 / 2}, row, {(0,): 1 / 2})
    other = Tree({(0, 0): 1 / 4, (0, 1): 1 / 4, (1, 0): 1 / 2}, row, {})
    due = [Cell((0,), 1 / 2, 1 / 2), Cell((1, 0), 1 / 8, 1 / 2), Cell((1, 1), 3 / 8, 0)]
    assert [cell for cell, is_last in cells(one, other) if is_last] == due
    assert distance(one, other) == 3 / 8


MIXED = Tree({(0,): 1 / 4, (1, 1): 1 / 4}, row, {(0, 1): 1 / 4, (1, 0): 1 / 4})

MASSES = {
    (): 1, (0,): 1 / 2, (1,): 1 / 2, (0, 0): 3 / 16, (0, 1): 5 / 16, (1, 0): 1 / 4, (1, 1): 1 / 4,
    (1, 1, 0): 1 / 16, (0, 0, 0, 1): 9 / 256,
}  # fmt: skip
"""Of beginnings, in ``MIXED``: what ends sooner is completed with the target."""


@pytest.mark.parametrize(("tokens", "mass"), MASSES.items(), ids=str)
def test_what_ends_is_completed_with_the_target(tokens, mass):
    assert MIXED.mass(tokens) == probability(MIXED, tokens) == mass


@pytest.mark.parametrize("tokens", [(0, 1, 0), (1, 0, 1), (1, 0, 0, 1)])
def test_nothing_is_known_after_an_open_sequence(tokens):
    assert math.isnan(MIXED.mass(tokens))


def test_beginnings_are_told_with_all_that_pass_through():
    assert MIXED.through == {
        (): 1, (0,): 1 / 2, (1,): 1 / 2, (1, 1): 1 / 4, (0, 1): 1 / 4, (1, 0): 1 / 4,
    }  # fmt: skip
    assert MIXED.inner == {(), (0,), (1,)}
    assert Tree({(0, 1, 1): 1 / 2}, row, {(0,): 1 / 2}).inner == {()}


def test_rows_that_nobody_reaches_are_not_asked_for():
    def refused(tokens):
        raise AssertionError(tokens)

    assert Tree({}, refused, {(0, 1): 1.0}).mass((0, 1)) == 1


def test_laws_of_one_length_are_arrays():
    one, other = np.array([[1 / 2, 1 / 4], [1 / 4, 0]]), np.full((2, 2), 1 / 4)
    assert distance(one, other) == 1 / 4
    assert probability(one, (0,)) == 3 / 4
    assert probability(one, (1, 0)) == 1 / 4
    assert probability(one, ()) == 1
