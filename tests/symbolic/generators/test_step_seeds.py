"""Step rules that seed themselves: once when they are built, and at a call."""

import itertools

import numpy as np
import pytest
from support.whole_laws import enumerate_step

HALF = np.full(2, 0.5)
calls = itertools.count()


def bit(generator):
    return [int(generator.integers(2))]


class Once:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def step(self, prefix, target, draft, gamma, rng):
        return bit(self.rng)


class Children:
    def __init__(self):
        self.seeds = np.random.SeedSequence(0)

    def step(self, prefix, target, draft, gamma, rng):
        return bit(np.random.default_rng(self.seeds.spawn(1)[0]))


class AtReset(Once):
    def reset(self):
        self.rng = np.random.default_rng(0)


def by_length(prefix, target, draft, gamma, rng):
    return bit(np.random.default_rng(len(prefix)))


def of_eight(prefix, target, draft, gamma, rng):
    return bit(np.random.default_rng(rng.integers(8)))


def by_count(prefix, target, draft, gamma, rng):
    return bit(np.random.Generator(np.random.Philox(key=1, counter=[0, 0, 0, next(calls)])))


def from_rng(prefix, target, draft, gamma, rng):
    return bit(np.random.default_rng(rng.integers(2**63)))


def kinds(rule, earlier_calls=0):
    law = enumerate_step(
        rule, lambda _: HALF, lambda _: HALF, gamma=1, length=2, earlier_calls=earlier_calls
    )
    assert sum(law.probabilities.values()) == pytest.approx(1)
    return [finding.kind for finding in law.findings]


class OneChild(Children):
    def step(self, prefix, target, draft, gamma, rng):
        return bit(np.random.default_rng(self.seeds))


@pytest.mark.parametrize("rule", [Once, Children, by_count, from_rng])
@pytest.mark.parametrize("earlier_calls", [0, 1])
def test_right_ones_are_found_right(rule, earlier_calls):
    assert kinds(rule, earlier_calls) == []


@pytest.mark.parametrize("rule", [by_length, of_eight, OneChild])
def test_a_constant_at_a_call_is_a_finding(rule):
    assert kinds(rule) == ["constant-seed"]


def test_a_seed_set_at_every_reset_is_found_by_a_second_generation():
    assert kinds(AtReset, 1) == ["constant-seed"]
