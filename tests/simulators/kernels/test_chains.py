"""Greedy block's carried state: the compiled stack against targets built from joints alone."""

from collections.abc import Callable

import numpy as np
import pytest
from numba import njit
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles import naive
from support.pages.reproduction import agree, assert_reproduced, compiled, reproduce

from simverify.models.base import MarkovModel, compact, toy
from simverify.models.markov import markov
from simverify.simulators.kernels.chains import carry, settle
from simverify.simulators.run import model_tables, simulate

MODELS = {
    "toy": toy,
    "compact": compact,
    "markov-5": lambda: markov(5),
    **{f"zeros-{i}": (lambda i=i: random_pair(i, 4)) for i in range(4)},
}


class Forgetful(naive.Debts):
    """No debt is carried."""

    def call_ended(self, start, tau):
        pass


class OnlyLast(naive.Debts):
    """A new debt replaces the older ones."""

    def call_ended(self, start, tau):
        if tau <= self.gamma - 2:
            self.starts = [start]
            self._known.clear()


class OnlyFirst(naive.Debts):
    """A new debt is dropped while an older one stands."""

    def call_ended(self, start, tau):
        end = self.starts[-1] + self.gamma if self.starts else 0
        if tau <= self.gamma - 2 and end <= start + tau + 1:
            self.starts.append(start)


@pytest.mark.parametrize("wrong", [Forgetful, OnlyLast, OnlyFirst])
@pytest.mark.parametrize("name", ["compact", "zeros-1"])
@pytest.mark.thorough
def test_other_ways_to_carry_are_not_reproduced(name, wrong):
    model = MODELS[name]()
    options = {"calls": 5, "positions": 10}
    got = compiled(model, "greedy", 5, 1000, **options)
    assert agree(got, reproduce(model, "greedy", 5, 1000, **options))
    assert not agree(got, reproduce(model, "greedy", 5, 1000, debts=wrong, **options))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.thorough
def test_long_generations(name):
    """Stacks as deep as they get: gamma - 1 entries, over many calls."""
    for gamma in (4, 6, 8):
        options = {"calls": 12}
        got = compiled(MODELS[name](), "greedy", gamma, 40, **options)
        assert agree(got, reproduce(MODELS[name](), "greedy", gamma, 40, **options))


@njit
def step(tables, states, tokens, begin, ends, path, laws):
    for i in range(tokens.size):
        laws[i, 0], laws[i, 1], laws[i, 2] = carry(
            tables, states[i], tokens[i], begin + i, ends, 0, ends.shape[0], path, i
        )


@njit
def finish(tables, state, last, begin, gamma, tau, weight, ends, factors, top, path):
    return settle(tables, state, last, begin, gamma, tau, weight, ends, factors, 0, top, path)


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_of_the_two_number_form(name):
    """Every modified target is max(alpha p - beta q, 0), its factors those of the joints."""
    model = MODELS[name]()
    tables, gamma = model_tables(model), 5
    pair = naive.Pair.of(model, tables)
    checked = 0
    for trial in range(60):
        debts, prefix = call_by_call(pair, gamma, trial, calls=2)
        live = [k for k, s in enumerate(debts.starts) if s + gamma > len(prefix)]
        if not live:
            continue
        ends = np.array([[debts.starts[k] + gamma] for k in live])
        path = np.empty((gamma + 1, len(live)))
        path[0] = [joints(debts, k, prefix) for k in live]
        if not np.isfinite(path[0]).all():
            continue  # a token outside the draft's support has ended the debt
        drafted, states, laws = [], [], np.empty((gamma, 3))
        for i in range(gamma):
            at = pair.context((*prefix, *drafted))
            states.append(at)
            coin = naive.uniform(3, trial, naive.DRAFT, 100 + i)
            drafted.append(naive.draw_alias(pair.cut[at], pair.alias[at], coin))
        step(tables, np.array(states), np.array(drafted), len(prefix), ends, path, laws)
        for i in range(gamma):
            due = np.array(debts.target((*prefix, *drafted[:i])), dtype=float)
            p, q = np.array(pair.p[states[i]]), np.array(pair.q[states[i]])
            alpha, beta, ratio = laws[i]
            np.testing.assert_allclose(np.maximum(alpha * p - beta * q, 0), due, atol=1e-12)
            assert ratio == pytest.approx(due[drafted[i]] / q[drafted[i]], abs=1e-11)
            if not due.any() or due[drafted[i]] == 0:
                break  # what follows cannot be reached
            checked += 1
    assert checked > 20


def call_by_call(pair, gamma, trial, calls):
    """Return the debts and the tokens after ``calls`` calls."""
    made = []

    class Recorded(naive.Debts):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    out = naive.generate(pair, "greedy", gamma, seed=3, trial=trial, calls=calls, debts=Recorded)
    return made[0], out.tokens


def joints(debts, k, prefix):
    """Return R of debt ``k`` after ``prefix``, infinite where the draft cannot give it."""
    r = 1.0
    for n in range(debts.starts[k], len(prefix)):
        q = debts.pair.q[debts.pair.context(prefix[:n])][prefix[n]]
        r *= debts.law(k, prefix[:n])[prefix[n]] / q if q > 0 else np.inf
    return r


def test_settling():
    """What is kept, pushed and dropped, on the toy: q(0) = 2/3, p(0) = 1/3."""
    tables, gamma = model_tables(toy()), 4
    path = np.full((gamma + 2, 3), np.nan)

    def after(begin, tau, weight, last, entries):
        ends, factors = np.zeros((3, 1), np.int64), np.zeros((3, 1))
        for j, (end, r) in enumerate(entries):
            ends[j, 0] = end
            path[tau, j] = r
        top = finish(tables, 0, last, begin, gamma, tau, weight, ends, factors, len(entries), path)
        return [(int(ends[j, 0]), float(factors[j, 0])) for j in range(top)]

    # A new debt up to gamma tokens after the call's start, R = weight p(1) / q(1) = 3 . 2.
    assert after(10, 0, 3.0, 1, []) == [(14, 6.0)]
    assert after(10, 2, 3.0, 1, []) == [(14, 6.0)]
    # Nothing is owed after gamma - 1 or gamma tokens.
    assert after(10, 3, 3.0, 1, []) == []
    assert after(10, 4, 1.0, 1, [(13, 2.0)]) == []
    # Older entries move past the token: R 2, unless they end with it.
    assert after(10, 3, 3.0, 1, [(15, 1.5)]) == [(15, 3.0)]
    assert after(10, 3, 3.0, 1, [(14, 1.5)]) == []
    # The new entry is relative to the modified target: M = max(1.5 p - q, 0), all on token 1,
    # so that M(1) / q(1) = 3.
    assert after(10, 0, 2.0, 1, [(12, 1.5)]) == [(12, 3.0), (14, pytest.approx(6.0))]


# Whole generations of the compiled loop, reproduced token by token in plain Python.


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
