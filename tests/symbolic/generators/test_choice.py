"""A choice without replacement, in the order in which numpy's own finds what it chooses."""

import copy
import itertools
import os
import pickle
import random
import secrets
import time
import uuid
from collections import Counter
from random import Random

import numpy as np
import pytest
from scipy import stats
from support.fuzzing.generator_pairs import same_half
from support.whole_laws import enumerate_step

from simverify import exact_law
from simverify.symbolic.provenance import CannotEnumerate

TRIALS = 4_000
"""The control has a p-value of 0 in double precision, with half as many 4e-292."""
SIZES = [(3, 2), (3, 3), (4, 1), (4, 3), (5, 2)]


def drawn(n, count, **how):
    return lambda rng: tuple(rng.choice(n, count, replace=False, **how).tolist())


def log_p(law, function, seed):
    """P-value of numpy's own draws under a law; 0 where they leave its support."""
    rng = np.random.default_rng(seed)
    seen = Counter(function(rng) for _ in range(TRIALS))
    if not seen.keys() <= law.keys():
        return 0.0
    if len(law) == 1:
        return 1.0
    counts = [seen[x] for x in law]
    return stats.chisquare(counts, [float(p) * TRIALS for p in law.values()]).pvalue


@pytest.mark.parametrize(("n", "count"), SIZES)
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_law_is_that_of_numpys_own(n, count, shuffle):
    function = drawn(n, count, shuffle=shuffle)
    assert log_p(exact_law(function), function, 11) > 1e-9


@pytest.mark.parametrize(("n", "count"), [(3, 2), (4, 3)])
def test_without_shuffling_it_is_no_permutation(n, count):
    """The control: the law of the one is refuted by the other."""
    found = exact_law(drawn(n, count))
    assert log_p(found, drawn(n, count, shuffle=False), 11) < 1e-9


def test_more_than_there_are_is_refused_as_by_numpy():
    def refused(rng):
        try:
            return rng.choice(2, 3, replace=False, shuffle=False)
        except ValueError:
            return "refused"

    assert refused(np.random.default_rng(0)) == "refused"
    assert exact_law(refused) == {"refused": 1}


WEIGHTS = {3: [0.5, 0.2, 0.3], 4: [0.1, 0.0, 0.6, 0.3], 5: [0.3, 0.05, 0.2, 0.4, 0.05]}


@pytest.mark.parametrize(("n", "count"), [(3, 2), (3, 3), (4, 2), (4, 3), (5, 2)])
def test_with_weights_each_is_drawn_off_those_before(n, count):
    function = drawn(n, count, p=WEIGHTS[n])
    law = exact_law(function)
    assert sum(law.values()) == pytest.approx(1)
    for chosen, mass in law.items():
        due, left = 1.0, 1.0
        for x in chosen:
            due, left = due * WEIGHTS[n][x] / left, left - WEIGHTS[n][x]
        assert mass == pytest.approx(due, abs=1e-12)
    assert log_p(law, function, 12) > 1e-9
    legacy = np.random.RandomState(3)
    assert log_p(law, lambda _: function(legacy), 12) > 1e-9


def test_with_other_weights_it_is_another_law():
    """The control."""
    law = exact_law(drawn(3, 2, p=WEIGHTS[3]))
    assert log_p(law, drawn(3, 2, p=[0.45, 0.25, 0.3]), 12) < 1e-9


@pytest.mark.parametrize(("p", "count"), [([0.5, 0.5, 0.0], 3), ([0.2, 0.3, 0.5], 4)])
def test_weights_too_few_are_refused_as_by_numpy(p, count):
    def refused(rng):
        try:
            return tuple(rng.choice(3, count, replace=False, p=p))
        except ValueError as error:
            return str(error)

    said = refused(np.random.default_rng(0))
    assert exact_law(refused) == {said: 1}


# Python's ``random``: seeded, copied, rewound; and entropy of the system.


OWN = Random(3)
SYSTEM = random.SystemRandom()
STATE = Random(5).getstate()


def again(r):
    """Two draws with the state put back between them."""
    state = r.getstate()
    u = r.random()
    r.setstate(state)
    return u, r.random()


def seeded(seed):
    random.seed(seed)
    return random.random()


def bits64():
    return random.getrandbits(64)


INDEPENDENT = {
    "two": lambda: (random.random(), random.random()),
    "own": lambda: (OWN.random(), random.random()),
    "system": lambda: (SYSTEM.random(), Random().random()),
    "the system has no seed": lambda: [(SYSTEM.seed(1), SYSTEM.random())[1] for _ in "ab"],
    "drawn seeds": lambda: (Random(bits64()).random(), Random(bits64()).random()),
    "entropy": lambda: (seeded(None), Random(None).random()),
    "secrets": lambda: (secrets.randbits(64) / 2**64, secrets.randbelow(100) / 100),
    "clock": lambda: (Random(time.perf_counter_ns()).random(), random.random()),
    "uniform and integers": lambda: (random.uniform(0, 1), random.randrange(2) / 2),
    "choices": lambda: (random.choices([0, 1])[0], random.choice([0, 1])),
    "sample": lambda: (random.sample(range(2), 1)[0], random.randint(0, 1)),
    "shuffled": lambda: (sorted([0, 1], key=lambda _: random.random())[0], random.random()),
    "pareto": lambda: (1 / random.paretovariate(1.0), random.random()),
    "exponential": lambda: (random.expovariate(np.log(2)) / 2, random.random()),
}

SAME = {
    "state": lambda: again(random),
    "of one's own": lambda: again(OWN),
    "of a new one": lambda: again(Random()),
    "copied": lambda: (copy.copy(OWN).random(), OWN.random()),
    "deepcopied": lambda: (copy.deepcopy(OWN).random(), OWN.random()),
    "pickled": lambda: (pickle.loads(pickle.dumps(OWN)).random(), OWN.random()),
    "drawn seed": lambda: (lambda s: (Random(s).random(), seeded(s)))(bits64()),
    "mixed seed": lambda: (lambda s: (Random(s ^ 5).random(), seeded(s ^ 5)))(bits64()),
    "handed over": lambda: (
        lambda r: (OWN.setstate(r.getstate()), OWN.random(), r.random())[1:]
    )(Random()),
}  # fmt: skip

CONSTANT = {
    "seed": lambda: (seeded(1), OWN.random()),
    "a word": lambda: (seeded("simverify"), OWN.random()),
    "one's own": lambda: (Random(1).random(), OWN.random()),
    "by keyword": lambda: (Random(x=1).random(), OWN.random()),
    "set to a state": lambda: (random.setstate(STATE), random.random(), OWN.random())[1:],
    "copied": lambda: (copy.deepcopy(Random(1)).random(), OWN.random()),
}

REFUSED = {
    "few seeds": (lambda: (Random(random.getrandbits(32)).random(), 0.2), "2**32 drawn numbers"),
    "a float": (lambda: (seeded(random.random()), 0.2), "2**53 drawn numbers"),
    "inside": (lambda: (random.getstate()[1][0] % 2, 0.2), "the inside of the state"),
    "text": (lambda: (len(str(random.getstate())), 0.2), "the inside of the state"),
    "kept": (lambda: (kept(), 0.2), "state that an earlier call kept"),
    "normal": (lambda: (random.gauss(0, 1), 0.2), "random.gauss"),
    "bytes": (lambda: (random.randbytes(1)[0], 0.2), "random.randbytes"),
    "urandom": (lambda: (os.urandom(1)[0], 0.2), "os.urandom"),
    "getrandom": (lambda: (os.getrandom(1)[0], 0.2), "os.getrandom"),
    "uuid": (lambda: (uuid.uuid4().int % 2, 0.2), "os.urandom"),
    "token": (lambda: (secrets.token_bytes(1)[0], 0.2), "secrets.token_bytes"),
    "two kinds": (
        lambda: (copy.deepcopy(OWN).random(), OWN.getrandbits(1)), "draws of two kinds"
    ),
    "the clock": (lambda: (time.perf_counter_ns() // 7 % 2, 0.2), "not tracked"),
}  # fmt: skip
_kept = []


def kept():
    if len(_kept) < 2:  # the first call is one without symbols
        _kept.append(random.getstate())
    random.setstate(_kept[-1])
    return random.random()


@pytest.mark.parametrize("how", INDEPENDENT)
def test_streams_that_have_nothing_in_common_are_independent(how):
    assert same_half(INDEPENDENT[how]) == (pytest.approx(0.5, abs=1e-14), [])


@pytest.mark.parametrize("how", SAME)
def test_the_same_state_gives_the_same_draw(how):
    assert same_half(SAME[how]) == (pytest.approx(1.0, abs=1e-14), [])
    for _ in range(20):
        u, v = SAME[how]()
        assert u == v


@pytest.mark.parametrize("how", CONSTANT)
def test_a_constant_is_a_finding_however_it_is_dressed(how):
    assert same_half(CONSTANT[how])[1] == ["constant-seed"]


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_not_known_is_refused_by_name(how):
    two, words = REFUSED[how]
    with pytest.raises(CannotEnumerate) as refusal:
        same_half(two)
    assert words in str(refusal.value)


# Step rules that seed themselves: once when they are built, and at a call.


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
