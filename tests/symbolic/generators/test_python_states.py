"""Python's ``random``: seeded, copied, rewound; and entropy of the system."""

import copy
import os
import pickle
import random
import secrets
import time
import uuid
from random import Random

import numpy as np
import pytest
from support.fuzzing.generator_pairs import same_half

from simverify.auditing.exact.generations.enumerate import CannotEnumerate

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
