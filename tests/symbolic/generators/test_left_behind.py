"""Generators that stay from call to call and are left where they were: the next call draws again.

The law of one call is right in every row here.
"""

import copy
import random

import numpy as np
import pytest
from support.fuzzing.generator_pairs import law_of

from simverify.auditing.enumeration import enumerate_verify

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)
OWN = torch.Generator()


def half(u):
    return int(u < 0.5)


def peeked():
    state = random.getstate()
    u = random.random()
    random.setstate(state)
    return half(u)


def forked(seed=None):
    with torch.random.fork_rng():
        if seed is not None:
            torch.manual_seed(seed)
        return half(torch.rand(()))


def drawn():
    return torch.randint(2**62, ()).item()


def wound(words):
    RNG.bit_generator.state  # noqa: B018 -- from here on its draws are remembered
    u = RNG.random(3)[0]
    RNG.bit_generator.advance(words)
    return half(u)


REPEATING = {
    "peeked": peeked,
    "forked": forked,
    "copied": lambda: half(copy.deepcopy(RNG).random()),
    "bits copied": lambda: half(
        np.random.Generator(copy.deepcopy(RNG.bit_generator)).random()
    ),
    "jumped": lambda: half(np.random.Generator(RNG.bit_generator.jumped()).random()),
    "cloned": lambda: half(torch.rand((), generator=OWN.clone_state())),
    "wound back": lambda: wound(-2),
}  # fmt: skip

RIGHT = {
    "logged": lambda: (random.getstate(), half(random.random()))[1],
    "forked and seeded": lambda: forked(drawn()),
    "spawned": lambda: half(RNG.spawn(1)[0].random()),
    "copied and dropped": lambda: (copy.deepcopy(RNG), half(RNG.random()))[1],
    "jumped, and drawn from": lambda: (
        half(np.random.Generator(RNG.bit_generator.jumped()).random()), RNG.random()
    )[0],
    "wound ahead": lambda: wound(2),
}  # fmt: skip


@pytest.mark.parametrize("how", REPEATING)
def test_what_is_left_behind_is_found(how):
    with pytest.raises(AssertionError, match="repeated-draws"):
        law_of(REPEATING[how])


@pytest.mark.parametrize("how", RIGHT)
def test_what_moves_on_is_right(how):
    assert law_of(RIGHT[how]).tolist() == [0.5, 0.5]


def test_a_copy_of_the_generator_that_is_handed_over_repeats_it():
    law = enumerate_verify(
        lambda p, q, x, rng: [half(copy.deepcopy(rng).random())],
        np.full((2, 2), 0.5), np.full((1, 2), 0.5), [0],
    )  # fmt: skip
    assert [finding.kind for finding in law.findings] == ["repeated-draws"]
