"""Step rules with a generator of their own, seeded once: their calls are composed, if none repeats.

A generator that only goes on draws afresh in each call, wherever it stands. One that is copied, put
back or made again does not, and its calls may not count as independent.
"""

import copy

import numpy as np
import pytest

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import Subject

NAMES = "plain, V=2, gamma=2", "plain, V=2, gamma=2, after a reset"
MODELS = [m for m in instances_for("step", 2, 3, 0) if m.core or m.name in NAMES]


def decode(rng, prefix, target, draft, gamma):
    out = list(prefix)
    for _ in range(gamma):
        p, q = target(tuple(out)), draft(tuple(out))
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] >= p[x]:
            r = np.maximum(p - q, 0)
            return [*out[len(prefix) :], int(rng.choice(len(p), p=r / r.sum()))]
        out.append(x)
    return [*out[len(prefix) :], int(rng.choice(len(p), p=target(tuple(out))))]


class Seeded:
    """Right: seeded once, when it is built."""

    def __init__(self):
        self.own = np.random.default_rng(20)

    def step(self, prefix, target, draft, gamma, rng):
        return decode(self.generator(rng), prefix, target, draft, gamma)

    def generator(self, rng):
        return self.own


class Unseeded(Seeded):
    """Right: seeded by the system."""

    def __init__(self):
        self.own = np.random.default_rng()


class Integers(Seeded):
    """Right: between the calls it draws an unknown number of words."""

    def generator(self, rng):
        self.own.integers(5)
        return self.own


class Copies(Seeded):
    """Wrong: every call draws from a copy, and the generator stays where it was."""

    def generator(self, rng):
        return copy.deepcopy(self.own)


class PutBack(Seeded):
    """Wrong: every call begins at the state of the first."""

    def __init__(self):
        super().__init__()
        self.state = self.own.bit_generator.state

    def generator(self, rng):
        self.own.bit_generator.state = self.state
        return self.own


class MadeAgain(Seeded):
    """Wrong: the seed sequence that it was built with seeds every call."""

    def __init__(self):
        self.seed = np.random.SeedSequence(20)

    def generator(self, rng):
        return np.random.default_rng(self.seed)


class SeededAtResets(Seeded):
    """Wrong: each generation begins with the draws of the first."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.own = np.random.default_rng(20)


class SeededAtTheFirstReset(Seeded):
    """Right: later resets leave the generator where it is."""

    def __init__(self):
        self.own = None

    def reset(self):
        self.own = self.own or np.random.default_rng(20)


class SeededAgainAtTheFirstReset(SeededAtTheFirstReset):
    """Right: the constructor's generator has the same seed, but nothing is drawn from it."""

    def __init__(self):
        super().__init__()
        self.spare = np.random.default_rng(20)


class LagsBehind(Seeded):
    """Wrong: calls take turns at two generators of one seed, so the second repeats the first."""

    def __init__(self):
        self.both = [np.random.default_rng(20), np.random.default_rng(20)]

    def generator(self, rng):
        self.both.reverse()
        return self.both[0]


def tier_of(rule):
    return run_exact_tier(
        Subject(rule.__name__, rule, "step"), "step", MODELS, tolerance=None, searching=False
    )


@pytest.mark.parametrize(
    "rule", [Seeded, SeededAtTheFirstReset, SeededAgainAtTheFirstReset, Unseeded, Integers]
)
def test_calls_of_a_generator_that_only_goes_on_are_composed(rule):
    def plain(prefix, target, draft, gamma, rng):
        return decode(rng, prefix, target, draft, gamma)

    tier = tier_of(rule)
    assert tier.failure is None
    assert [judged.model for judged in tier.judged] == MODELS
    if rule not in (Integers, SeededAgainAtTheFirstReset):  # whose integers and spare cost paths
        assert tier.paths == tier_of(plain).paths


@pytest.mark.parametrize("rule", [Copies, PutBack, MadeAgain, SeededAtResets, LagsBehind])
def test_draws_that_come_again_fail(rule):
    tier = tier_of(rule)
    found = tier.failure or tier.not_enumerable
    assert found is not None
    if tier.failure is None:
        assert any(finding.severity == "violation" for finding in tier.not_enumerable.findings)
