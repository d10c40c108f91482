"""What outlives a call and was changed in place is seen, whatever it is kept in."""

import array
import collections
import os
import types
from functools import partial

import numpy as np
import pytest

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instance_battery
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.symbolic.hidden_state import UNCHANGED_STATE, HiddenState


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 0


class Noted(int):
    """An integer that can be written on."""


class Listed(list):
    """A list that can be written on."""


class Told(Exception):
    """An exception of the code's own."""


def function():
    """Can be written on too."""


HOLDERS = {
    "list": (lambda: [0], "x[0] = 1"),
    "nested": (lambda: [[0]], "x[0][0] = 1"),
    "dict": (lambda: {0: 0}, "x[0] = 1"),
    "order of a dict": (lambda: {0: 0, 1: 1}, "x[0] = x.pop(0)"),
    "set": (set, "x.add(1)"),
    "deque": (lambda: collections.deque([0]), "x[0] = 1"),
    "counter": (collections.Counter, "x[0] += 1"),
    "what a dict lacks": (lambda: collections.defaultdict(int), "x.default_factory = list"),
    "array": (lambda: array.array("i", [0]), "x[0] = 1"),
    "longer array": (lambda: array.array("i", [0]), "x.append(0)"),
    "numbers": (lambda: np.zeros(2), "x[1] = 1"),
    "shape": (lambda: np.zeros(4), "x.shape = 2, 2"),
    "objects": (lambda: np.array([0, [0]], dtype=object), "x[1][0] = 1"),
    "records": (lambda: np.zeros(2, dtype=[("a", "i4")]), "x['a'][0] = 1"),
    "namespace": (lambda: types.SimpleNamespace(value=0), "x.value = 1"),
    "slots": (Slotted, "x.value = 1"),
    "attribute of a number": (lambda: Noted(3), "x.value = 1"),
    "attribute of a list": (lambda: Listed([0]), "x.value = 1"),
    "attribute of a function": (lambda: types.FunctionType(function.__code__, {}), "x.value = 1"),
    "exception": (lambda: Told(0), "x.args = (1,)"),
}


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("name", HOLDERS)
def test_a_change_in_place_is_seen(name):
    make, change = HOLDERS[name]
    x = make()

    def rule():
        return x

    kept = HiddenState(rule, None)
    assert kept.reason == ""
    before = kept.image()
    assert kept.image() == before
    exec(change, {"x": x})
    assert kept.image() != before


HOLD_DRAWS = (
    "list", "nested", "dict", "order of a dict", "set", "deque", "objects", "namespace", "slots",
    "attribute of a number", "attribute of a list",
)  # fmt: skip


@pytest.mark.parametrize("name", HOLD_DRAWS)
def test_what_was_changed_in_place_is_put_back(name):
    make, change = HOLDERS[name]
    held = make()

    def rule():
        return held

    kept = HiddenState(rule, None)
    exec(change, {"x": held})
    assert kept.image() != UNCHANGED_STATE
    assert kept.put_back()
    assert kept.image() == UNCHANGED_STATE


def test_names_that_were_bound_to_others_are_put_back():
    class Rule:
        last = 0

    last = 0

    def rule():
        nonlocal last
        Rule.last = last = 1
        return Rule

    kept = HiddenState(rule, None)
    rule()
    assert kept.image() != UNCHANGED_STATE
    assert kept.put_back()
    assert (kept.image(), Rule.last, last) == (UNCHANGED_STATE, 0, 0)


def test_what_a_partial_function_keeps_is_put_back():
    def rule(known, *, more):
        return known, more

    bound = partial(rule, [1], more=[2])
    bound.note = "first"
    kept = HiddenState(bound, None)
    assert kept.put_back()
    bound.args[0].append(3)
    bound.keywords["more"].append(4)
    bound.note = "second"
    assert kept.image() != UNCHANGED_STATE
    assert kept.put_back()
    assert (bound(), bound.note) == (([1], [2]), "first")
    assert kept.image() == UNCHANGED_STATE


def test_what_cannot_be_read_is_not_put_back():
    running = iter([0])

    def rule():
        return running

    assert not HiddenState(rule, None).put_back()


def hung(value):
    np.debt_of_a_test = value


def in_environment(value):
    os.environ["DEBT_OF_A_TEST"] = str(value)


@pytest.mark.parametrize("keep", [hung, in_environment])
def test_what_is_kept_outside_the_code_is_seen(keep):
    for before in (None, 0):
        if before is not None:
            keep(before)
        kept = HiddenState(keep, None)
        assert kept.reason == ""
        first = kept.image()
        keep(1)
        assert kept.image() != first


LAST = array.array("i", [0])


class PaysLater:
    """After one rejection in three, all of the next call's drafts are accepted."""

    def reset(self):
        LAST[0] = 0

    def step(self, prefix, target, draft, gamma, rng):
        x, p, q = [], [target(prefix)], []
        for _ in range(gamma):
            q.append(draft((*prefix, *x)))
            x.append(int(rng.choice(len(q[-1]), p=q[-1])))
            p.append(target((*prefix, *x)))
        all_in, LAST[0] = LAST[0], 0
        for i, y in enumerate(x):
            if not all_in and rng.random() * q[i][y] >= p[i][y]:
                rest = np.maximum(p[i] - q[i], 0)
                rest = rest if rest.sum() else p[i]
                z = int(rng.choice(len(rest), p=rest / rest.sum()))
                LAST[0] = i == 2 and z == 2
                return [*x[:i], z]
        return [*x, int(rng.choice(len(p[-1]), p=p[-1]))]


class InEnvironment(PaysLater):
    """The same, out of sight of all that the code names."""

    def reset(self):
        LAST[0] = 0
        os.environ["DEBT_OF_A_TEST"] = "0"

    def step(self, *arguments):
        LAST[0] = int(os.environ["DEBT_OF_A_TEST"])
        tokens = super().step(*arguments)
        os.environ["DEBT_OF_A_TEST"] = str(int(LAST[0]))
        LAST[0] = 0
        return tokens


@pytest.mark.parametrize("rule", [PaysLater, InEnvironment])
def test_a_debt_is_paid_wherever_it_is_kept(rule):
    models = [m for m in instance_battery(3, 3) if m.name == "one-hot target, V=3, gamma=3"]
    tier = run_exact_tier(Subject("late", rule, "step"), "step", models, tolerance=None,
                   searching=False)  # fmt: skip
    assert tier.failure is not None
    assert tier.failure.deviates


def test_an_object_that_answers_no_name_is_read():
    """Stand-ins of libraries refuse what they do not know, in their own words."""

    class Refusing:
        def __getattr__(self, name):
            raise RuntimeError(name)

    refusing, steps = Refusing(), [0]

    def rule():
        steps[0] += 1
        return refusing

    kept = HiddenState(rule, None)
    assert kept.image() == UNCHANGED_STATE
    rule()
    assert kept.image() != UNCHANGED_STATE


class Buffered:
    """Its coin goes through an array of its own, and every other call uses the one before again."""

    again = False

    def __init__(self):
        self.buffer = np.zeros(1)

    def reset(self):
        pass

    def step(self, prefix, target, draft, gamma, rng):
        p, q = target(prefix), draft(prefix)
        x = int(rng.choice(len(q), p=q))
        if not (self.again and len(prefix) % 2):
            self.buffer[0] = rng.random()
        if self.buffer[0] * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        return [int(rng.choice(len(p), p=rest / rest.sum()))]


class BufferedAgain(Buffered):
    again = True


@pytest.mark.parametrize(("rule", "verdict"), [(Buffered, "PASS"), (BufferedAgain, "FAIL")])
def test_draws_in_an_array_of_the_rules_own_object_are_followed(rule, verdict):
    settings = AuditSettings(gamma=1, vocab=2)
    run = audit(Subject("rule", rule, "step"), "step", settings)
    assert (run.verdict, run.tier) == (verdict, "exact"), run.not_enumerable
