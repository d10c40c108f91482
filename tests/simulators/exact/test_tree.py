"""Tree laws: closed forms of the paper on every prefix, and every exact number."""

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import prod

import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles.oracle_laws import joint, rational, sequences

from simverify.models.small import compact, toy
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.exact.tree import grow
from simverify.verifiers import VERIFIERS

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


@pytest.mark.parametrize("rule", VERIFIERS)
@pytest.mark.parametrize("name", MODELS)
def test_acceptance_on_every_prefix(name, rule):
    model = MODELS[name]
    pair = rational(model)
    tree = grow(VERIFIERS[rule], markov_rows(model), 4)
    for length, level in enumerate(tree.accepted):
        assert list(level) == [kept(pair, rule, x) for x in sequences(pair, length)]


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("name", MODELS)
def test_completed_law_is_the_targets(name, rule):
    model = MODELS[name]
    pair = rational(model)
    tree = grow(VERIFIERS[rule], markov_rows(model), 4)
    for length, (got, due) in enumerate(zip(tree.completed, tree.target, strict=True)):
        assert list(due) == [joint(pair.p, x) for x in sequences(pair, length)]
        assert list(got) == list(due)
    assert tree.max_abs_deviation == tree.total_variation == 0


def test_completed_law_of_temperature_zero_is_not():
    rule = VERIFIERS["temperature-0"]
    tree = grow(rule, markov_rows(toy()), 2)
    # It emits B, BB or BBB: a first token A is never seen.
    assert tree.total_variation == tree.max_abs_deviation == Fraction(1, 3)
    one_hot = grow(rule, markov_rows(one_hot_pair()), 4)
    assert one_hot.max_abs_deviation == 0
    # Up to gamma its tokens may follow the target while the bonus does not.
    assert len(one_hot.completed) == 6


def test_completed_law_of_a_wrong_rule_is_not():
    """Block's acceptance with token's residual."""
    block, token = VERIFIERS["block"], VERIFIERS["token"]

    def step(m, b, f, p, q):
        return block.tree_step(m, b, f, p, q)[0], token.tree_step(m, b, f, p, q)[1]

    tree = grow(replace(block, tree_step=step), markov_rows(compact()), 3)
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
TOY = {
    "token": numbers("2/3 10/9 38/27 130/81 12610/6561"),
    "block": numbers("2/3 11/9 5/3 166/81 20384/6561"),
    "greedy": numbers("2/3 12/9 50/27 64/27 8536/2187"),
}
COMPACT = {
    "token": numbers("5/6 101/72 379/216"),
    "block": numbers("5/6 211/144 139/72"),
    "greedy": numbers("5/6 221/144 593/288"),
}


@pytest.mark.parametrize("rule", FIGURE_3)
def test_figure_3(rule):
    tree = grow(VERIFIERS[rule], markov_rows(MODELS["toy"]), 10)
    assert tree.curve == FIGURE_3[rule]


@pytest.mark.parametrize("rule", FIGURE_3)
def test_toy_at_every_gamma(rule):
    """A curve does not depend on gamma, so E[tau] is a sum of figure 3's."""
    sums = list(accumulate(FIGURE_3[rule], initial=Fraction(0)))
    assert [sums[gamma] for gamma in TOY_GAMMAS] == TOY[rule]
    for gamma in range(1, 9):
        tree = grow(VERIFIERS[rule], markov_rows(MODELS["toy"]), gamma)
        assert tree.expected_accepted == sums[gamma]
        assert isinstance(tree.expected_accepted, Fraction)


def test_block_is_above_token_and_below_greedy():
    assert FIGURE_3["token"] != FIGURE_3["block"] != FIGURE_3["greedy"]
    for name in ("toy", "compact", "zeros-0"):
        values = [
            grow(VERIFIERS[rule], markov_rows(MODELS[name]), 4).expected_accepted
            for rule in FIGURE_3
        ]
        assert values == sorted(values)


@pytest.mark.parametrize("rule", COMPACT)
def test_compact(rule):
    rows = markov_rows(MODELS["compact"])
    got = [grow(VERIFIERS[rule], rows, gamma).expected_accepted for gamma in (1, 2, 3)]
    assert got == COMPACT[rule]


def test_float_rows_give_the_same_to_rounding():
    model = replace(compact(), rational=None)
    for rule, values in COMPACT.items():
        tree = grow(VERIFIERS[rule], markov_rows(model), 3)
        assert tree.expected_accepted == pytest.approx(float(values[2]), abs=1e-15)
        if rule != "greedy":
            assert tree.max_abs_deviation < 1e-16
