"""Whole generations of the compiled loop, reproduced token by token in plain Python."""

from collections.abc import Callable

import numpy as np
import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.pages.reproduction import agree, assert_reproduced, compiled, reproduce

from simverify.models.base import MarkovModel
from simverify.models.markov import markov
from simverify.models.small import compact, toy
from simverify.simulators.run import simulate
from simverify.simulators.tables import model_tables

RULES = ["token", "block", "greedy", "match", "temperature-0"]

Case = tuple[Callable[[], MarkovModel], int]

# And trials: what goes wrong in one of twenty shows in each of 150 and more with probability .9995.
CASES: dict[str, Case] = {
    "toy": (toy, 300),
    "compact": (compact, 300),
    "markov-5": (lambda: markov(5), 300),
    "markov-64": (lambda: markov(64), 40),
    "markov-70": (lambda: markov(70), 20),  # states = token mod 64
    "far": (lambda: markov(6, distance=1.0), 200),
    "cold": (lambda: markov(6, temperature=0.2), 200),
    "one-hot": (one_hot_pair, 100),
    "equal": (equal_pair, 100),
    "disjoint": (disjoint_pair, 100),
    "partly-equal": (partly_equal_pair, 150),
    **{f"zeros-{i}": (lambda i=i: random_pair(i, 4, states=3), 200) for i in range(6)},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.thorough
def test_first_call(name, rule):
    build, trials = CASES[name]
    for gamma in (1, 2, 3, 5, 8):
        assert_reproduced(build(), rule, gamma, trials // 2, positions=gamma + 1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.thorough(by_day=30)
def test_many_calls(name, rule):
    build, trials = CASES[name]
    for gamma, calls in ((2, 5), (4, 3), (7, 5)):
        assert_reproduced(build(), rule, gamma, trials // 4, calls=calls)
        assert_reproduced(build(), rule, gamma, trials // 4, calls=calls, positions=gamma + 2)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["toy", "compact", "zeros-1"])
def test_end_of_sequence(name, rule):
    build, trials = CASES[name]
    model = build()
    endless = compiled(model, rule, 3, trials, calls=4).lengths[0, -1]
    lengths = []
    for eos in range(model.vocab_size):
        for gamma in (1, 3):
            options = {"calls": 4, "eos": eos, "positions": 5}
            assert_reproduced(model, rule, gamma, trials, **options)
        lengths.append(compiled(model, rule, 3, trials, calls=4, eos=eos).lengths[0, -1])
    assert min(lengths) < endless
    assert max(lengths) <= endless


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["compact", "markov-5", "zeros-2"])
def test_randomised_pits(name, rule):
    build, trials = CASES[name]
    assert_reproduced(build(), rule, 3, trials, calls=3, pit_positions=5)
    assert_reproduced(build(), rule, 3, trials, pit_positions=4, positions=3)


def test_trials_that_fill_no_tile():
    for trials in (1, 127, 128, 129):
        assert_reproduced(compact(), "greedy", 3, trials, calls=3, positions=4)


def test_pits_of_wrong_support_are_counted():
    """Match on a target and a draft that share no token emits the target's tokens alone."""
    right = compiled(disjoint_pair(), "match", 3, 500, pit_positions=4)
    assert right.unsupported == 0
    tables = model_tables(disjoint_pair())
    # The draft's columns are declared the target's: everything drafted is now outside it.
    liar = tables._replace(ratio=np.ones_like(tables.ratio))
    wrong = simulate(liar, "token", 3, 500, seed=1, threads=1, pit_positions=4)
    assert wrong.unsupported == 3 * 500


@pytest.mark.parametrize(
    ("rule", "other"),
    [("token", "block"), ("block", "greedy"), ("greedy", "block"), ("match", "token")],
)
def test_another_rule_is_not_reproduced(rule, other):
    got = compiled(compact(), rule, 3, 300, positions=4)
    assert not agree(got, reproduce(compact(), other, 3, 300, positions=4))
