"""From the laws of single blocks, written down by hand, to that of a call and where it is off."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.comparison import (
    LawTree,
    OutputSequence,
    TreeCell,
    common_cells,
    compare_laws,
    compare_tokens,
    gaps_by_position,
    prefix_probability,
    target_tree,
    total_variation,
)
from simverify.results import Localisation
from simverify.symbolic import ExactLaw, Finding

P = {None: (3 / 4, 1 / 4), 0: (1 / 2, 1 / 2), 1: (1 / 4, 3 / 4)}
Q = {None: (1 / 4, 3 / 4), 0: (3 / 4, 1 / 4), 1: (1 / 2, 1 / 2)}
WARNING = Finding("edge", "warning", "a token of p = 0 at u = 0")
OTHER = Finding("edge", "warning", "the same, elsewhere")
VIOLATION = Finding("emits", "violation", "emitted token 9")


def pair(p=P, q=Q):
    """A target and a draft, whose row follows from the last token."""

    def rows(table):
        return lambda prefix: np.array(table[prefix[-1] if len(prefix) else None])

    return SimpleNamespace(target=rows(p), draft=rows(q))


def token_law(block, *, accepting=None, residual=None, bonus=None):
    """The token rule's law on a block; with a fault at the positions that are named."""
    law, reached = {}, 1.0
    for i, x in enumerate(block):
        last = block[i - 1] if i else None
        p, q = P[last], Q[last]
        kept = 1.0 if i == accepting else min(1.0, p[x] / q[x])
        left = p if i == residual else [max(a - b, 0) for a, b in zip(p, q, strict=True)]
        for y, mass in enumerate(left):
            if reached * (1 - kept) * mass > 0:
                law[(*block[:i], y)] = reached * (1 - kept) * mass / sum(left)
        reached *= kept
    for y, mass in enumerate((Q if bonus else P)[block[-1]]):
        law[(*block, y)] = reached * mass
    return law


def laws(gamma, **faults):
    """The law of each drafted block, with the block's own probability."""
    return [
        (block, float(np.prod([Q[a][b] for a, b in itertools.pairwise((None, *block))])),
         ExactLaw(token_law(block, **faults), 1, 0.0, 0.0, ()))
        for block in itertools.product(range(2), repeat=gamma)
    ]  # fmt: skip


# Faults of the token rule at gamma 2, and the position and kind of token that shows them.
FAULTS = {
    "none": ({}, None),
    "accepts all, first": ({"accepting": 0}, (0, "accepted")),
    "accepts all, second": ({"accepting": 1}, (1, "accepted")),
    "draws the target, first": ({"residual": 0}, (0, "residual")),
    "draws the target, second": ({"residual": 1}, (1, "residual")),
    "draws the draft": ({"bonus": True}, (2, "bonus")),
}


@pytest.mark.parametrize(("faults", "place"), FAULTS.values(), ids=FAULTS)
def test_a_fault_has_a_place(faults, place):
    found = compare_laws(laws(2, **faults), pair().target, 2, None)
    if place is None:
        assert found.place is None
        assert found.max_abs_deviation < 1e-15
        return
    position, stage = place
    due = np.einsum("i,ij,jk->ijk", P[None], *[[P[0], P[1]]] * 2)
    behind = tuple(range(position + 1, 3))
    tv = np.abs((found.emitted - due).sum(axis=behind)).sum() / 2
    assert (found.place.position, found.place.stage) == (position, stage)
    assert found.place.tv == pytest.approx(tv, rel=1e-12)
    assert tv > 0.01
    assert found.tv == pytest.approx(np.abs(found.emitted - due).sum() / 2, rel=1e-12)


def law(weights, *, paths=1, pruned=0.0, lost=0.0, findings=(), complete=True, dtypes=()):
    return ExactLaw(weights, paths, pruned, lost, findings, complete, dict.fromkeys(dtypes, ""))


HALVES = law({(0, 0): 1 / 2, (0, 1): 1 / 2}, paths=2, findings=(WARNING,))
SHORT = law({(1, 0): 1 / 16, (1, 1): 3 / 16, (0,): 1 / 2}, paths=3, pruned=1 / 8, lost=1 / 8,
            findings=(OTHER, VIOLATION))  # fmt: skip


def call(first=HALVES, second=SHORT, tolerance=1e-9):
    """A call of one drafted token, by its laws where that is 0 and where it is 1."""
    return compare_laws([((0,), 1 / 4, first), ((1,), 3 / 4, second)], pair().target, 1, tolerance)


def test_a_call_that_was_worked_out_by_hand():
    found = call()
    assert found.emitted.tolist() == [[5 / 16, 5 / 16], [3 / 64, 9 / 64]]
    assert found.worst == OutputSequence((0, 0), 5 / 16, 3 / 8)
    assert all(type(token) is int for token in found.worst.tokens)
    assert found.pruned == found.lost == 3 / 32
    assert found.max_abs_deviation == 1 / 16 + found.pruned
    assert found.tv == 3 / 32
    assert found.place == Localisation(0, "residual", 3 / 32)
    assert found.expected_accepted == found.bonus == 7 / 16
    assert found.paths == 5
    assert found.findings == (WARNING, VIOLATION)
    assert found.broken == (1,)
    assert found.complete
    assert found.dtype == "float64"


def test_a_call_counts_what_is_accepted_and_the_bonus():
    """E[tau] is the sum over x^l of the products of min(p, q): 1/2 and 3/8; the last, the bonus."""
    found = compare_laws(laws(2), pair().target, 2, None)
    assert found.expected_accepted == pytest.approx(7 / 8, abs=1e-15)
    assert found.bonus == pytest.approx(3 / 8, abs=1e-15)


def test_what_was_not_run_and_what_was_lost_is_of_all_blocks():
    first = law({(0, 0): 1 / 2}, pruned=1 / 8, lost=3 / 8)
    found = call(first, law({(0,): 1 / 2}, pruned=1 / 4, lost=1 / 4))
    assert (found.pruned, found.lost) == (7 / 32, 9 / 32)


def test_a_warning_breaks_no_contract():
    assert call(second=law({(0,): 1.0}, findings=(OTHER,))).broken is None


@pytest.mark.parametrize(("first", "second"), list(itertools.product([True, False], repeat=2)))
def test_a_call_is_complete_where_all_blocks_are(first, second):
    found = call(law({(0,): 1.0}, complete=first), law({(0,): 1.0}, complete=second))
    assert found.complete == (first and second)


@pytest.mark.parametrize(("tolerance", "found"), [(3 / 32 - 1e-9, True), (3 / 32, False)])
def test_what_is_within_the_tolerance_has_no_place(tolerance, found):
    assert (call(tolerance=tolerance).place is not None) == found


@pytest.mark.parametrize(
    ("dtypes", "coarsest", "found"),
    [((), "float64", True), (("float32",), "float32", True), (("bfloat16",), "bfloat16", False),
     (("float32", "float16"), "float16", False)],
)  # fmt: skip
def test_the_tolerance_is_that_of_the_coarsest_precision(dtypes, coarsest, found):
    """A TV of 1/64, which 16 bits excuse and 32 do not."""
    second = law({(1, 0): 1 / 12, (1, 1): 1 / 4, (0,): 2 / 3 - 1 / 48}, dtypes=dtypes)
    call_ = call(law({(0, 0): 1 / 2, (0, 1): 1 / 2}), second, tolerance=None)
    assert call_.dtype == coarsest
    assert call_.tv == pytest.approx(1 / 128, rel=1e-9)
    assert (call_.place is not None) == found


@pytest.mark.parametrize(("tolerance", "stage"), [(1 / 16, "residual"), (1 / 32, "accepted")])
def test_too_many_are_accepted_beyond_the_tolerance_alone(tolerance, stage):
    """Of token 1 5/16 are accepted, and 1/4 is due; the rest goes to token 2."""
    third = {None: (1 / 2, 1 / 4, 1 / 4), **dict.fromkeys(range(3), (1 / 2, 1 / 4, 1 / 4))}
    blocks = [
        ((0,), 1 / 4, law({(0, y): third[0][y] for y in range(3)})),
        ((1,), 1 / 2, law({(2,): 3 / 8, **{(1, y): 5 / 8 * third[0][y] for y in range(3)}})),
        ((2,), 1 / 4, law({(2, y): third[0][y] for y in range(3)})),
    ]
    found = compare_laws(blocks, pair(third).target, 1, tolerance)
    assert found.place == Localisation(0, stage, 1 / 4)


@pytest.mark.parametrize("weight", [1 / 32, 0.0])
def test_what_the_target_never_emits_is_found_within_the_tolerance(weight):
    never = {None: (1.0, 0.0), 0: (1 / 2, 1 / 2), 1: (1 / 2, 1 / 2)}
    blocks = [((0,), 1.0, law({(0, 0): 1 / 2, (0, 1): 1 / 2 - weight, (1,): weight}))]
    found = compare_laws(blocks, pair(never).target, 1, 1 / 4)
    assert found.place is None
    assert [finding.kind for finding in found.findings] == ["impossible-token"] * (weight > 0)


# Of a rule that is asked for tokens.


def tokens(probabilities, open_=(), **more):
    made = {
        "paths": 7, "pruned": 1 / 64, "lost": 1 / 128, "findings": (WARNING,), "complete": False,
        "dtypes": {"float32": ""},
    }  # fmt: skip
    return SimpleNamespace(probabilities=probabilities, open=dict(open_), **(made | more))


def test_tokens_that_were_worked_out_by_hand():
    """Token 0 comes with probability 5/8 where 3/4 is due, and is then completed."""
    found = compare_tokens(tokens({(0,): 5 / 8, (1, 0): 1 / 8}, {(1, 1): 1 / 4}), pair().target)
    assert found.tv == 1 / 8
    assert found.worst == OutputSequence((0,), 5 / 8, 3 / 4)
    assert found.max_abs_deviation == 1 / 8 + 1 / 64
    assert found.place == Localisation(0, None, 1 / 8)
    assert found.expected_accepted is None
    known = compare_tokens(tokens({(0,): 1.0}), pair().target, accepted=0.75)
    assert known.expected_accepted == 0.75
    assert found.bonus is None
    assert (found.paths, found.pruned, found.lost, found.complete) == (7, 1 / 64, 1 / 128, False)
    assert found.findings == (WARNING,)
    assert found.dtype == "float32"
    assert found.emitted.mass((0, 0)) == 5 / 16


def test_the_place_is_the_first_position_beyond_the_tolerance():
    second = tokens({(0,): 3 / 4, (1, 0): 1 / 8, (1, 1): 1 / 8})
    assert compare_tokens(second, pair().target).place == Localisation(1, None, 1 / 16)
    assert compare_tokens(second, pair().target, tolerance=1 / 16).place is None
    half = tokens({(0,): 3 / 4 + 1 / 64, (1,): 1 / 4 - 1 / 64})
    assert compare_tokens(half, pair().target).place.position == 0
    half.dtypes = {"float32": "", "bfloat16": ""}
    assert compare_tokens(half, pair().target).place is None


@pytest.mark.parametrize(("tolerance", "found"), [(None, 0), (1e-6, 0), (2e-6, 1), (1 / 4, 1)])
def test_tokens_that_the_target_never_emits_are_found_within_the_tolerance(tolerance, found):
    never = pair({None: (1.0, 0.0), 0: (1 / 2, 1 / 2), 1: (1 / 2, 1 / 2)})
    some = tokens({(0,): 31 / 32, (1,): 1 / 32}, findings=())
    assert len(compare_tokens(some, never.target, tolerance=tolerance).findings) == found


def test_each_row_of_the_target_is_asked_for_once():
    asked = []

    def target(prefix):
        asked.append(prefix)
        return pair().target(prefix)

    compare_tokens(tokens({(0, 0): 1 / 2, (0, 1): 1 / 4, (1, 1): 1 / 4}), target, tolerance=1 / 2)
    assert sorted(asked) == [(), (0,), (1,)]


# Laws of sequences of different lengths: completed by the target, and how far two are apart.


ROWS = {None: (1 / 2, 1 / 2), 0: (3 / 4, 1 / 4), 1: (1 / 4, 3 / 4)}


def row(tokens):
    """The target's row, by the last token."""
    return np.array(ROWS[tokens[-1] if tokens else None])


TARGET = target_tree(row)

# Laws, the TV from the target of their first one, two and three tokens, and the sequence that is
# furthest off: its tokens, its probability, and the one that is due. All numbers are exact.
LAWS = {
    "the target, at once": (LawTree({(): 1.0}, row, {}), [0], ((), 1, 1)),
    "the target, token by token": (
        LawTree({(0,): 1 / 2, (1, 0): 1 / 8, (1, 1): 3 / 8}, row, {}), [0, 0], ((0,), 1 / 2, 1 / 2),
    ),
    "another first token": (
        LawTree({(0,): 3 / 4, (1,): 1 / 4}, row, {}), [1 / 4], ((0,), 3 / 4, 1 / 2),
    ),
    "another second token": (
        LawTree({(0,): 1 / 4, (1, 1): 1 / 4}, row, {(0, 1): 1 / 4, (1, 0): 1 / 4}),
        [0, 5 / 16], ((0, 0), 3 / 16, 3 / 8),
    ),
    "nothing known after 0": (
        LawTree({(1, 0): 1 / 2, (1, 1): 1 / 4}, row, {(0,): 1 / 4}),
        [1 / 4, 3 / 8], ((1, 0), 1 / 2, 1 / 8),
    ),
    "nothing known after 0, and after 1, 0": (
        LawTree({(1, 1, 0): 1 / 4}, row, {(0,): 1 / 4, (1, 0): 1 / 2}),
        [1 / 4, 3 / 8, 17 / 32], ((1, 0), 1 / 2, 1 / 8),
    ),
    "nothing known after 0, where some is told": (
        LawTree({(0, 1): 1 / 8, (1,): 1 / 2}, row, {(0,): 3 / 8}), [0], ((0,), 1 / 2, 1 / 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("law", "tvs", "furthest"), LAWS.values(), ids=LAWS)
def test_each_position_is_as_far_from_the_target_as_the_table_says(law, tvs, furthest):
    found, worst = gaps_by_position(law, TARGET)
    assert found == tvs
    assert (worst.tokens, worst.one, worst.other) == furthest
    assert total_variation(law, TARGET) == tvs[-1]
    # Neither law is the first: cells are the same, with their numbers the other way round.
    found, worst = gaps_by_position(TARGET, law)
    assert found == tvs
    assert (worst.tokens, worst.other, worst.one) == furthest


@pytest.mark.parametrize("law", [law for law, *_ in LAWS.values()], ids=LAWS)
def test_the_last_cells_part_both_laws(law):
    last = [cell for cell, is_last in common_cells(law, TARGET) if is_last]
    assert sum(cell.one for cell in last) == sum(cell.other for cell in last) == 1
    # In the order of their tokens, so that of two that are equally far off the first is shown.
    assert [cell.tokens for cell in last] == sorted(cell.tokens for cell in last)


def test_two_laws_are_parted_no_further_than_both_know():
    one = LawTree({(1,): 1 / 2}, row, {(0,): 1 / 2})
    other = LawTree({(0, 0): 1 / 4, (0, 1): 1 / 4, (1, 0): 1 / 2}, row, {})
    due = [TreeCell((0,), 1 / 2, 1 / 2), TreeCell((1, 0), 1 / 8, 1 / 2), TreeCell((1, 1), 3 / 8, 0)]
    assert [cell for cell, is_last in common_cells(one, other) if is_last] == due
    assert total_variation(one, other) == 3 / 8


MIXED = LawTree({(0,): 1 / 4, (1, 1): 1 / 4}, row, {(0, 1): 1 / 4, (1, 0): 1 / 4})

MASSES = {
    (): 1, (0,): 1 / 2, (1,): 1 / 2, (0, 0): 3 / 16, (0, 1): 5 / 16, (1, 0): 1 / 4, (1, 1): 1 / 4,
    (1, 1, 0): 1 / 16, (0, 0, 0, 1): 9 / 256,
}  # fmt: skip
"""Of beginnings, in ``MIXED``: what ends sooner is completed with the target."""


@pytest.mark.parametrize(("tokens", "mass"), MASSES.items(), ids=str)
def test_what_ends_is_completed_with_the_target(tokens, mass):
    assert MIXED.mass(tokens) == prefix_probability(MIXED, tokens) == mass


@pytest.mark.parametrize("tokens", [(0, 1, 0), (1, 0, 1), (1, 0, 0, 1)])
def test_nothing_is_known_after_an_open_sequence(tokens):
    assert math.isnan(MIXED.mass(tokens))


def test_beginnings_are_told_with_all_that_pass_through():
    assert MIXED.through == {
        (): 1, (0,): 1 / 2, (1,): 1 / 2, (1, 1): 1 / 4, (0, 1): 1 / 4, (1, 0): 1 / 4,
    }  # fmt: skip
    assert MIXED.inner == {(), (0,), (1,)}
    assert LawTree({(0, 1, 1): 1 / 2}, row, {(0,): 1 / 2}).inner == {()}


def test_rows_that_nobody_reaches_are_not_asked_for():
    def refused(tokens):
        raise AssertionError(tokens)

    assert LawTree({}, refused, {(0, 1): 1.0}).mass((0, 1)) == 1


def test_laws_of_one_length_are_arrays():
    one, other = np.array([[1 / 2, 1 / 4], [1 / 4, 0]]), np.full((2, 2), 1 / 4)
    assert total_variation(one, other) == 1 / 4
    assert prefix_probability(one, (0,)) == 3 / 4
    assert prefix_probability(one, (1, 0)) == 1 / 4
    assert prefix_probability(one, ()) == 1
