"""What a call emits and leaves behind, found in three ways, and what follows over many."""

import itertools
from fractions import Fraction

import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles.oracle_laws import (
    add_up,
    call_law,
    distance,
    expected_accepted,
    generation_law,
    target_law,
    without_zeros,
)

from simverify.models.small import compact, toy
from simverify.simulators.exact.calls import (
    TooManyCalls,
    first_tokens,
    laws_by_paths,
    laws_by_tree,
    tokens_after_calls,
)
from simverify.simulators.exact.rows import START, markov_rows
from simverify.simulators.exact.tree import grow
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


@pytest.mark.parametrize("rule", VERIFIERS)
@pytest.mark.parametrize(("model", "gamma"), CASES, ids=IDS)
@pytest.mark.thorough
def test_first_call(model, gamma, rule):
    by_paths, by_tree = (laws(START, (), gamma + 1) for laws in both(rule, model, gamma))
    assert without_zeros(by_tree) == by_paths
    assert sum(by_paths.values()) == 1
    tokens = add_up((tokens, weight) for (tokens, _), weight in by_paths.items())
    assert tokens == call_law(model, rule, gamma)
    expected = grow(VERIFIERS[rule], markov_rows(model), gamma).expected_accepted
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
