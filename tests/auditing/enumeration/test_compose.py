"""Calls composed instead of multiplied: the same law, in fewer paths, whatever the code keeps."""

import collections
import itertools
import types

import numpy as np
import pytest
from support.composing import MODELS, SMALL, Count, composed, judged, right
from support.whole_laws import enumerate_step

from simverify.auditing.enumeration import NotComposable
from simverify.auditing.examiner import Examiner, make_enumeration, verify_as_step
from simverify.auditing.instances import SmallModel, instances_for
from simverify.auditing.subject import Subject
from simverify.verifiers import VERIFIERS
from simverify.verifiers.greedy import GreedyBlock

# -- the number of paths --


@pytest.mark.parametrize(
    ("rows", "gamma", "most"),
    [("plain, V=3, gamma=3", 3, 1_000), ("random 1, V=4, gamma=3", 4, 20_000)],
)
def test_a_plain_step_rule_has_few_paths(rows, gamma, most):
    model = MODELS[rows]
    model = SmallModel(model.name, gamma, model.targets, model.drafts)
    law, comparison = composed(verify_as_step(VERIFIERS["token"].rule), model)
    assert law.paths < most
    assert comparison.max_abs_deviation < 1e-12
    assert not law.open


@pytest.mark.parametrize("rule", [right, GreedyBlock], ids=["no state", "state"])
def test_the_composed_law_is_that_of_every_path(rule):
    length = 4
    plain = enumerate_step(rule, SMALL.target, SMALL.draft, gamma=2, length=length)
    law, _ = composed(rule, SMALL, length)
    cut = collections.Counter()
    for tokens, mass in (*law.probabilities.items(), *law.open.items()):
        cut[tokens[:length]] += mass
    assert cut == pytest.approx(plain.probabilities, abs=1e-14)


# -- state that is compared by value --

_global = 0


def bumped():
    global _global
    _global += 1
    return _global


class Attribute(Count):
    def reset(self):
        self.calls = 0

    def count(self):
        self.calls += 1
        return self.calls


class Closure(Count):
    def __init__(self):
        calls = 0

        def count():
            nonlocal calls
            calls += 1
            return calls

        self.count = count


class Global(Count):
    def reset(self):
        global _global
        _global = 0

    def count(self):
        return bumped()


class Deque(Count):
    def __init__(self):
        self.calls = collections.deque(maxlen=9)

    def count(self):
        self.calls.append(1)
        return len(self.calls)


class Array(Count):
    def __init__(self):
        self.calls = np.zeros(1)

    def count(self):
        self.calls[0] += 1
        return self.calls[0]


class View(Count):
    """Two views of one piece of memory."""

    def __init__(self):
        memory = np.zeros(4)
        self.calls, self.seen = memory[:2], memory[1:]

    def count(self):
        self.calls[1] += 1
        return self.seen[0]


class Slots(Count):
    class Box:
        __slots__ = ("calls",)

    def __init__(self):
        self.box = self.Box()
        self.box.calls = 0

    def count(self):
        self.box.calls += 1
        return self.box.calls


class Generator(Count):
    def __init__(self):
        self.calls = iter(range(1, 99))

    def count(self):
        return next(self.calls)


class Yields(Count):
    def __init__(self):
        def numbers():
            for n in itertools.count(1):  # noqa: UP028
                yield n

        self.calls = numbers()

    def count(self):
        return next(self.calls)


class Nested(Count):
    def __init__(self):
        self.calls = {"of": [types.SimpleNamespace(n=0)]}

    def count(self):
        self.calls["of"][0].n += 1
        return self.calls["of"][0].n


class OnAFunction(Count):
    def __init__(self):
        vars(bumped).pop("calls", None)

    def count(self):
        bumped.calls = getattr(bumped, "calls", 0) + 1
        return bumped.calls


class OnTheClass(Count):
    calls = 0

    def reset(self):
        type(self).calls = 0

    def count(self):
        type(self).calls += 1
        return self.calls


class OnTheGenerator(Count):
    """Leaves a mark on the generator that it is handed."""

    def step(self, prefix, target, draft, gamma, rng):
        rng.calls = getattr(rng, "calls", 0) + 1 if prefix else 1
        return right(prefix, target, draft, gamma, rng, wrong=rng.calls > 2)


class InALibrary(Count):
    """Keeps its count where nobody looks: as an attribute of a library's module."""

    def reset(self):
        np.exceptions.calls = 0

    def count(self):
        np.exceptions.calls += 1
        return np.exceptions.calls


@pytest.mark.parametrize("rule", [*Count.__subclasses__()], ids=lambda rule: rule.__name__)
@pytest.mark.thorough
def test_state_wherever_it_is_kept_is_seen(rule):
    found = judged(rule, MODELS["plain, V=2, gamma=1"])
    assert found.deviates
    assert found.comparison.place.position >= 2


@pytest.mark.parametrize(
    "rule", [Attribute, Closure, Global, Deque, Array, View, Slots, Nested, OnAFunction]
)
def test_what_can_be_read_is_composed(rule):
    model = MODELS["plain, V=2, gamma=1"]
    law, comparison = composed(rule, model, 4)
    apart, same = composed(rule, model, 4, merges=False)
    assert law.paths <= apart.paths
    assert comparison.tv == pytest.approx(same.tv, rel=1e-12)


@pytest.mark.parametrize("rule", [Generator, Yields])
def test_what_cannot_be_read_is_not_composed(rule):
    with pytest.raises(NotComposable):
        composed(rule, SMALL)


def test_a_function_that_keeps_something_is_not_composed():
    calls = []

    def counts(prefix, target, draft, gamma, rng):
        calls.append(1)
        return right(prefix, target, draft, gamma, rng)

    with pytest.raises(NotComposable, match="keeps something"):
        composed(counts, SMALL)


def matching(prefix, target, draft, gamma, rng):
    """The target's own draws, as long as each is among three drafts: hundreds of paths a call."""
    out = []
    for _ in range(gamma):
        row, drafts = target((*prefix, *out)), draft((*prefix, *out))
        few = rng.choice(len(drafts), size=3, p=drafts).tolist()
        out.append(int(rng.choice(len(row), p=row)))
        if out[-1] not in set(few):
            return out
    row = target((*prefix, *out))
    return [*out, int(rng.choice(len(row), p=row))]


def test_tokens_of_an_earlier_generation_that_was_not_followed_are_no_output():
    models = instances_for("step", 2, 2, 0, None)
    model = next(m for m in models if m.name.startswith("equal, V=2, gamma=2, after end"))
    subject = Subject("mine", matching, None)
    with make_enumeration(subject, "step") as enumeration:
        judged = Examiner(subject, "step", enumeration=enumeration).judge(model)
        assert judged.comparison.tv < 1e-12
        assert not judged.failed
