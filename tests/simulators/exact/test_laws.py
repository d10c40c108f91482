"""What a call emits and leaves behind, found in three ways, and what follows over many."""

import itertools
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import prod

import numpy as np
import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles.oracle_laws import (
    ORACLE_RULES,
    add_up,
    call_law,
    distance,
    expected_accepted,
    generation_law,
    joint,
    rational,
    sequences,
    target_law,
    without_zeros,
)

from simverify.models.base import compact, toy
from simverify.simulators.exact.laws import (
    START,
    TooManyCalls,
    argmax_accepted_mass,
    compute_tree_law,
    first_tokens,
    laws_by_paths,
    laws_by_tree,
    linear_curve,
    markov_rows,
    match_accepted_mass,
    token_accepted_mass,
    tokens_after_calls,
)
from simverify.verifiers import VERIFIERS

TOY, COMPACT = toy(), compact()
ZEROS = [random_pair(i, 3, states=2 + i % 2) for i in range(5)]
PARTLY = partly_equal_pair()
LIMITS = {"one-hot": one_hot_pair(), "equal": equal_pair(), "disjoint": disjoint_pair()}
CASES = [
    *((TOY, gamma) for gamma in (1, 2, 3, 4)),
    *((COMPACT, gamma) for gamma in (1, 2, 3, 4)),
    *((model, gamma) for model in ZEROS for gamma in (2, 3)),
    (PARTLY, 3),
    *((model, 2) for model in LIMITS.values()),
]
IDS = [f"{model.name}-{gamma}" for model, gamma in CASES]


def both(rule, model, gamma):
    rows = markov_rows(model)
    return [build(VERIFIERS[rule], rows, gamma) for build in (laws_by_paths, laws_by_tree)]


@pytest.mark.parametrize("rule", ORACLE_RULES)
@pytest.mark.parametrize(("model", "gamma"), CASES, ids=IDS)
@pytest.mark.thorough
def test_first_call(model, gamma, rule):
    by_paths, by_tree = (laws(START, (), gamma + 1) for laws in both(rule, model, gamma))
    assert without_zeros(by_tree) == by_paths
    assert sum(by_paths.values()) == 1
    tokens = add_up((tokens, weight) for (tokens, _), weight in by_paths.items())
    assert tokens == call_law(model, rule, gamma)
    expected = compute_tree_law(VERIFIERS[rule], markov_rows(model), gamma).expected_accepted
    assert expected_accepted(tokens) == expected


@pytest.mark.parametrize("rule", ["token", "block", "match", "temperature-0"])
def test_call_after_every_token(rule):
    by_paths, by_tree = both(rule, COMPACT, 2)
    laws = [by_paths(last, (), 3) for last in range(3)]
    for last, law in enumerate(laws):
        assert without_zeros(by_tree(last, (), 3)) == law
        assert {t: w for (t, _), w in law.items()} == call_law(COMPACT, rule, 2, last)
    assert laws[0] != laws[1]


def carried(laws, gamma, count):
    """Return ``count`` (last token, stack) pairs, not empty, that calls leave; deep ones first."""
    found, waiting = [], [(START, ())]
    while waiting and len(found) < count:
        law = laws(*waiting.pop(), gamma + 1)
        left = {(tokens[-1], stack) for tokens, stack in law if stack} - set(found)
        deepest = sorted(left, key=lambda pair: (len(pair[1]), pair))[-2:]
        found += deepest
        waiting += deepest
    return found


@pytest.mark.parametrize(
    ("model", "gamma", "count"),
    [(TOY, 2, 3), (TOY, 3, 10), (TOY, 4, 8), (COMPACT, 2, 8), (COMPACT, 3, 6),
     *((model, 3, 5) for model in ZEROS), *((model, 2, 2) for model in LIMITS.values())],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_greedy_with_carried_state(model, gamma, count):
    by_paths, by_tree = both("greedy", model, gamma)
    states = carried(by_paths, gamma, count)
    if model.name not in LIMITS:  # p = q and one-hot targets may leave no debt
        assert states
    if gamma == 3 and model in (TOY, COMPACT):
        assert max(len(stack) for _, stack in states) == 2
    for last, stack in states:
        law = by_paths(last, stack, gamma + 1)
        assert without_zeros(by_tree(last, stack, gamma + 1)) == law
        assert sum(law.values()) == 1


@pytest.mark.parametrize("rule", ["block", "greedy"])
def test_a_call_is_cut_where_its_room_ends(rule):
    by_paths, by_tree = both(rule, COMPACT, 3)
    whole = by_paths(START, (), 4)
    for room in (1, 2, 3):
        cut = add_up((tokens[:room], weight) for (tokens, _), weight in whole.items())
        got = add_up((tokens, w) for (tokens, _), w in by_tree(START, (), room).items())
        assert without_zeros(got) == cut


AFTER_CALLS = {
    "greedy": [Fraction(number) for number in ["7/3", "40/9", "59/9", "26/3"]],
    "block": [Fraction(number) for number in ["20/9", "40/9", "60/9", "80/9"]],
}


@pytest.mark.parametrize("rule", AFTER_CALLS)
def test_tokens_after_calls(rule):
    for laws in both(rule, TOY, 2):
        assert tokens_after_calls(laws, 2, 4) == AFTER_CALLS[rule]


def test_tokens_after_calls_with_end_of_sequence():
    """One call at gamma = 1 on the toy, by hand: p = (1/3, 2/3), q = (2/3, 1/3).

    Draft B (1/3) is kept, A (2/3) kept half the time, else B. Then one bonus token each.
    """
    laws = both("token", TOY, 1)[0]
    kept_a, kept_b, corrected = Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)
    assert tokens_after_calls(laws, 1, 1) == [2 * kept_a + 2 * kept_b + corrected]
    assert tokens_after_calls(laws, 1, 1, eos=0) == [kept_a + 2 * kept_b + corrected]
    assert tokens_after_calls(laws, 1, 1, eos=1) == [2 * kept_a + kept_b + corrected]
    # After corrected B (1/3) or kept BB (1/3 2/3) the generation with eos = A goes on.
    again = (corrected + kept_b * Fraction(2, 3)) * Fraction(4, 3)
    assert tokens_after_calls(laws, 1, 2, eos=0)[1] == Fraction(4, 3) + again


@pytest.mark.parametrize("rule", ["token", "block", "greedy", "match"])
@pytest.mark.parametrize(
    ("model", "gamma", "length"),
    [(TOY, 2, 4), (TOY, 3, 4), (COMPACT, 2, 3), *((model, 2, 3) for model in ZEROS[:3])],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.thorough(by_day=8)
def test_first_tokens_follow_the_target(model, gamma, length, rule):
    due = without_zeros(target_law(model, length))
    for laws in both(rule, model, gamma):
        assert without_zeros(first_tokens(laws, length, max_laws=400)) == due
    # The oracle's debts, which no state carries, give the same.
    assert generation_law(model, rule, gamma, length) == due


def test_first_tokens_of_temperature_zero_do_not():
    laws = both("temperature-0", TOY, 2)[0]
    assert distance(first_tokens(laws, 3), target_law(TOY, 3)) == 1 - Fraction(8, 27)


def test_budget_of_distinct_calls():
    laws = both("greedy", COMPACT, 3)[1]
    with pytest.raises(TooManyCalls):
        tokens_after_calls(laws, 3, 5, max_laws=3)
    with pytest.raises(TooManyCalls):
        first_tokens(laws, 5, max_laws=3)


def test_a_thousand_calls():
    """Far beyond the recursion limit; a renewal's tokens grow by its mean per call."""
    model = COMPACT
    laws = both("block", model, 2)[1]
    few, many = tokens_after_calls(laws, 2, 8), tokens_after_calls(laws, 2, 1000)
    assert many[:8] == few
    assert isinstance(few[-1], Fraction)
    # From then on the fractions are too long to print.
    assert isinstance(many[-1], float)
    assert all(str(value) for value in many)  # Python refuses to print 4,300 digits
    steps = [float(b - a) for a, b in itertools.pairwise(many)]
    assert steps[-1] == pytest.approx(steps[500], rel=1e-9)
    assert many[-1] == pytest.approx(float(many[99]) + 900 * steps[500], rel=1e-9)


def test_the_work_limit_counts_states_that_begin_a_call():
    laws = both("block", COMPACT, 2)[1]
    # The empty prefix and three last tokens; the states after the last call do not count.
    assert len(tokens_after_calls(laws, 2, 1000, max_laws=4)) == 1000
    assert len(tokens_after_calls(laws, 2, 1, max_laws=1)) == 1
    with pytest.raises(TooManyCalls):
        tokens_after_calls(laws, 2, 2, max_laws=3)


@pytest.mark.parametrize("eos", [None, 0, 2])
@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_tokens_after_calls_are_those_of_the_recursion(rule, eos):
    laws = both(rule, COMPACT, 2)[1]

    def expected(left, last, stack):
        if left == 0:
            return 0
        total = 0
        for (tokens, after), weight in laws(last, stack, 3).items():
            if eos in tokens:
                total += weight * (tokens.index(eos) + 1)
            else:
                total += weight * (len(tokens) + expected(left - 1, tokens[-1], after))
        return total

    due = [expected(n, START, ()) for n in (1, 2, 3)]
    assert tokens_after_calls(laws, 2, 3, eos=eos, max_laws=1000) == due


# Acceptance curves by recursion against enumeration in fractions.


def enumerate_curve(kept_start, kept_rows, gamma):
    """Sum the products of kept mass over every x^l, l = 1..gamma, in fractions."""
    curve = []
    for length in range(1, gamma + 1):
        total = Fraction(0)
        for x in itertools.product(range(len(kept_start)), repeat=length):
            mass = kept_start[x[0]]
            for before, token in itertools.pairwise(x):
                mass *= kept_rows[before % len(kept_rows)][token]
            total += mass
        curve.append(total)
    return curve


def fractions(rng, count, size):
    weights = rng.integers(0, 9, (count, size)) + np.eye(count, size, dtype=int)
    return [[Fraction(int(w), int(row.sum())) for w in row] for row in weights]


def as_floats(rows):
    return np.array(rows, dtype=np.float64)


RULES = {
    "token": (token_accepted_mass, lambda p, q: [min(a, b) for a, b in zip(p, q, strict=True)]),
    "match": (match_accepted_mass, lambda p, q: [a * b for a, b in zip(p, q, strict=True)]),
    "argmax": (
        argmax_accepted_mass,
        lambda p, q: [b if i == p.index(max(p)) else Fraction(0) for i, b in enumerate(q)],
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("states", "size"), [(1, 2), (3, 3), (2, 5), (4, 4)])
def test_curve_is_that_of_enumeration(rule, states, size):
    kept, kept_row = RULES[rule]
    rng = np.random.default_rng([states, size])
    p, q = fractions(rng, states + 1, size), fractions(rng, states + 1, size)
    exact = [kept_row(*rows) for rows in zip(p, q, strict=True)]
    table = kept(as_floats(p), as_floats(q))
    np.testing.assert_allclose(table, as_floats(exact), rtol=1e-15, atol=0)

    expected = enumerate_curve(exact[0], exact[1:], 4)
    curve = linear_curve(table[0], table[1:], 4)
    np.testing.assert_allclose(curve, as_floats(expected), rtol=1e-13, atol=0)

    if rule != "argmax" and states > 1:
        wrong = linear_curve(table[1], table[1:], 4)  # the start row taken from a state
        assert np.abs(wrong - as_floats(expected)).max() > 1e-4


def test_exact_numbers_of_the_token_rule():
    model = toy()
    start = token_accepted_mass(model.target_start, model.draft_start)
    rows = token_accepted_mass(model.target_rows, model.draft_rows)
    curve = linear_curve(start, rows, 10)
    np.testing.assert_allclose(curve, (2 / 3) ** np.arange(1, 11), rtol=1e-14)
    assert curve[:8].sum() == pytest.approx(12610 / 6561, rel=1e-14)

    model = compact()
    start = token_accepted_mass(model.target_start, model.draft_start)
    rows = token_accepted_mass(model.target_rows, model.draft_rows)
    for gamma, expected in ((1, 5 / 6), (2, 101 / 72), (3, 379 / 216)):
        assert linear_curve(start, rows, gamma).sum() == pytest.approx(expected, rel=1e-14)


def test_argmax_takes_the_lowest_id_among_equals():
    kept = argmax_accepted_mass(np.array([0.2, 0.4, 0.4]), np.array([0.5, 0.3, 0.2]))
    np.testing.assert_array_equal(kept, [0.0, 0.3, 0.0])


def test_large_vocabulary_with_few_states():
    size, states = 152_064 + 5, 64
    rng = np.random.default_rng(0)
    rows = rng.random((states, size))
    rows /= 2 * rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(linear_curve(rows[0], rows, 8), 0.5 ** np.arange(1, 9), rtol=1e-12)


@pytest.mark.parametrize(
    ("start", "rows", "gamma", "message"),
    [
        ([0.5, 0.5], [[0.5, 0.5, 0.0]], 2, "do not fit"),
        ([0.5, 0.5], [[0.5, 0.5]] * 3, 2, "3 states for 2 tokens"),
        ([0.5, 0.5], [[0.9, 0.5]], 2, "kept_rows row 0 sums to 1.4"),
        ([0.5, np.nan], [[0.5, 0.5]], 2, "kept_start row 0"),
        ([0.5, 0.5], [[0.5, -0.5]], 2, "lowest entry -0.5"),
        ([0.5, 0.5], [[0.5, 0.5]], 0, "gamma is 0"),
    ],
)
def test_bad_input(start, rows, gamma, message):
    with pytest.raises(ValueError, match=message):
        linear_curve(np.array(start), np.array(rows), gamma)


# Tree laws: closed forms of the paper on every prefix, and every exact number.


MODELS = {
    "toy": toy(),
    "compact": compact(),
    "one-hot": one_hot_pair(),
    "equal": equal_pair(),
    "disjoint": disjoint_pair(),
    "partly-equal": partly_equal_pair(),
    **{f"zeros-{i}": random_pair(i, 3, states=2 + i % 2) for i in range(6)},
}


def kept(pair, rule, x):
    """Pr(X^l = x, tau >= l) of a first call: the closed forms of docs/explanation/statistics.md."""

    def along(rows):
        return [rows[pair.context(x[:i])] for i in range(len(x))]

    p = [row[token] for row, token in zip(along(pair.p), x, strict=True)]
    q = [row[token] for row, token in zip(along(pair.q), x, strict=True)]
    if rule == "token":
        return prod(map(min, p, q))
    if rule == "block":
        return min(prod(q[:k]) * prod(p[k:]) for k in range(len(x) + 1))
    if rule == "greedy":
        return min(prod(p), prod(q))
    if rule == "match":
        return prod(p) * prod(q)
    modes = [row.index(max(row)) for row in along(pair.p)]
    return prod(q) if list(x) == modes else 0


@pytest.mark.parametrize("rule", ORACLE_RULES)
@pytest.mark.parametrize("name", MODELS)
def test_acceptance_on_every_prefix(name, rule):
    model = MODELS[name]
    pair = rational(model)
    tree = compute_tree_law(VERIFIERS[rule], markov_rows(model), 4)
    for length, level in enumerate(tree.accepted):
        assert list(level) == [kept(pair, rule, x) for x in sequences(pair, length)]


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("name", MODELS)
def test_completed_law_is_the_targets(name, rule):
    model = MODELS[name]
    pair = rational(model)
    tree = compute_tree_law(VERIFIERS[rule], markov_rows(model), 4)
    for length, (got, due) in enumerate(zip(tree.completed, tree.target, strict=True)):
        assert list(due) == [joint(pair.p, x) for x in sequences(pair, length)]
        assert list(got) == list(due)
    assert tree.max_abs_deviation == tree.total_variation == 0


def test_completed_law_of_temperature_zero_is_not():
    rule = VERIFIERS["temperature-0"]
    tree = compute_tree_law(rule, markov_rows(toy()), 2)
    # It emits B, BB or BBB: a first token A is never seen.
    assert tree.total_variation == tree.max_abs_deviation == Fraction(1, 3)
    one_hot = compute_tree_law(rule, markov_rows(one_hot_pair()), 4)
    assert one_hot.max_abs_deviation == 0
    # Up to gamma its tokens may follow the target while the bonus does not.
    assert len(one_hot.completed) == 6


def test_completed_law_of_a_wrong_rule_is_not():
    """Block's acceptance with token's residual."""
    block, token = VERIFIERS["block"], VERIFIERS["token"]

    def step(m, b, f, p, q):
        return block.tree_step(m, b, f, p, q)[0], token.tree_step(m, b, f, p, q)[1]

    tree = compute_tree_law(replace(block, tree_step=step), markov_rows(compact()), 3)
    assert tree.total_variation > Fraction(1, 100)


def numbers(text):
    return [Fraction(number) for number in text.split()]


# docs/explanation/statistics.md, "Facts that the code leans on".
FIGURE_3 = {
    "token": [Fraction(2, 3) ** n for n in range(1, 11)],
    "block": numbers("2/3 5/9 4/9 31/81 26/81 205/729 176/729 1403/6561 1222/6561 9817/59049"),
    "greedy": numbers("2/3 2/3 14/27 14/27 34/81 34/81 758/2187 758/2187 5702/19683 5702/19683"),
}
TOY_GAMMAS = (1, 2, 3, 4, 8)
TREE_TOY = {
    "token": numbers("2/3 10/9 38/27 130/81 12610/6561"),
    "block": numbers("2/3 11/9 5/3 166/81 20384/6561"),
    "greedy": numbers("2/3 12/9 50/27 64/27 8536/2187"),
}
TREE_COMPACT = {
    "token": numbers("5/6 101/72 379/216"),
    "block": numbers("5/6 211/144 139/72"),
    "greedy": numbers("5/6 221/144 593/288"),
}


@pytest.mark.parametrize("rule", FIGURE_3)
def test_figure_3(rule):
    tree = compute_tree_law(VERIFIERS[rule], markov_rows(MODELS["toy"]), 10)
    assert tree.curve == FIGURE_3[rule]


@pytest.mark.parametrize("rule", FIGURE_3)
def test_toy_at_every_gamma(rule):
    """A curve does not depend on gamma, so E[tau] is a sum of figure 3's."""
    sums = list(accumulate(FIGURE_3[rule], initial=Fraction(0)))
    assert [sums[gamma] for gamma in TOY_GAMMAS] == TREE_TOY[rule]
    for gamma in range(1, 9):
        tree = compute_tree_law(VERIFIERS[rule], markov_rows(MODELS["toy"]), gamma)
        assert tree.expected_accepted == sums[gamma]
        assert isinstance(tree.expected_accepted, Fraction)


def test_block_is_above_token_and_below_greedy():
    assert FIGURE_3["token"] != FIGURE_3["block"] != FIGURE_3["greedy"]
    for name in ("toy", "compact", "zeros-0"):
        values = [
            compute_tree_law(VERIFIERS[rule], markov_rows(MODELS[name]), 4).expected_accepted
            for rule in FIGURE_3
        ]
        assert values == sorted(values)


@pytest.mark.parametrize("rule", TREE_COMPACT)
def test_compact(rule):
    rows = markov_rows(MODELS["compact"])
    got = [compute_tree_law(VERIFIERS[rule], rows, gamma).expected_accepted for gamma in (1, 2, 3)]
    assert got == TREE_COMPACT[rule]


def test_float_rows_give_the_same_to_rounding():
    model = replace(compact(), rational=None)
    for rule, values in TREE_COMPACT.items():
        tree = compute_tree_law(VERIFIERS[rule], markov_rows(model), 3)
        assert tree.expected_accepted == pytest.approx(float(values[2]), abs=1e-15)
        if rule != "greedy":
            assert tree.max_abs_deviation < 1e-16
