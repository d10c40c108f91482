"""Chosen numbers come in the types that the libraries give."""

import math
import random

import numpy as np
import pytest

from simverify.symbolic.patching import intercept_randomness
from simverify.symbolic.paths import Path
from simverify.symbolic.source import RandomSource

# Kept: the names in numpy.random are others while code is intercepted.
REAL, LEGACY_REAL = np.random.Generator, np.random.RandomState

CALLS = {
    "random": lambda g: g.random(),
    "random single": lambda g: g.random(dtype=np.float32),
    "random array": lambda g: g.random((2, 3), dtype=np.float32),
    "random out": lambda g: g.random(out=np.zeros(4)),
    "uniform": lambda g: g.uniform(1, 2),
    "uniform array": lambda g: g.uniform([0, 1], [1, 2]),
    "exponential": lambda g: g.exponential(2.0, size=3),
    "standard_exponential": lambda g: g.standard_exponential(dtype=np.float32),
    "gumbel": lambda g: g.gumbel(size=(2, 2)),
    "integers": lambda g: g.integers(5),
    "integers bool": lambda g: g.integers(2, dtype=bool),
    "integers uint8": lambda g: g.integers(256, dtype=np.uint8),
    "integers array": lambda g: g.integers(100, size=3, dtype=np.int32),
    "choice": lambda g: g.choice(3),
    "choice p": lambda g: g.choice(3, p=[0.2, 0.3, 0.5]),
    "choice of words": lambda g: g.choice(["a", "bc"]),
    "choice array": lambda g: g.choice(3, size=2),
    "permutation": lambda g: g.permutation(4),
    "multinomial": lambda g: g.multinomial(1, [0.5, 0.5]),
    "binomial": lambda g: g.binomial(1, 0.5),
}

LEGACY = {
    "rand": lambda g: g.rand(),
    "rand array": lambda g: g.rand(2),
    "random_sample": lambda g: g.random_sample(),
    "randint": lambda g: g.randint(5),
    "randint uint8": lambda g: g.randint(200, dtype=np.uint8),
    "choice": lambda g: g.choice(3, p=[0.2, 0.3, 0.5]),
    "uniform": lambda g: g.uniform(1, 2, size=2),
}


def kind(x):
    return type(x), getattr(x, "dtype", None), np.shape(x)


@pytest.fixture
def plain():
    source = RandomSource(0.0, seed_once=True)
    with intercept_randomness(source, random.random, shadow_float=False, plain=True) as generator:
        source.begin(Path(), [0.3] * 60)
        yield generator()


@pytest.mark.parametrize("name", CALLS)
def test_the_generator_gives_numpys_types(plain, name):
    assert kind(CALLS[name](plain)) == kind(CALLS[name](REAL(np.random.PCG64(1))))


@pytest.mark.parametrize("name", LEGACY)
@pytest.mark.usefixtures("plain")
def test_the_legacy_generators_give_numpys_types(name):
    assert kind(LEGACY[name](np.random.RandomState())) == kind(LEGACY[name](LEGACY_REAL(1)))
    if "choice" not in name:
        assert kind(LEGACY[name](np.random)) == kind(LEGACY[name](LEGACY_REAL(1)))


def test_the_values_are_the_ones_chosen(plain):
    assert plain.random() == pytest.approx(0.3, abs=2.0**-53)
    assert plain.integers(10) == 3
    assert plain.choice(3, p=[0.2, 0.3, 0.5]) == 1
    assert plain.integers(256, size=1, dtype=np.uint8) + np.uint8(200) == (76 + 200) % 256


def test_what_numpy_refuses_is_refused(plain):
    with pytest.raises(ValueError, match="low >= high"):
        plain.integers(3, 3)
    with pytest.raises(TypeError, match="Unsupported dtype"):
        plain.random(dtype=np.float16)


def test_the_generator_does_not_look_like_a_stand_in(plain):
    assert type(plain).__name__ == "Generator"
    assert type(plain).__module__ == REAL.__module__
    assert type(plain) is np.random.Generator
    assert str(plain) == "Generator(PCG64)"


def test_torch_gives_its_own_types():
    torch = pytest.importorskip("torch")
    source = RandomSource(0.0, seed_once=True)

    def draws():
        return (
            torch.rand(2, 3), torch.rand((), dtype=torch.float64),
            torch.empty(2, dtype=torch.bfloat16).uniform_(), torch.randint(5, (2,)),
            torch.multinomial(torch.tensor([0.2, 0.8]), 1), torch.bernoulli(torch.full((2,), 0.4)),
            torch.empty(3).exponential_(),
        )  # fmt: skip

    real = draws()
    with intercept_randomness(source, draws, shadow_float=False, plain=True):
        source.begin(Path(), [0.3] * 12 + [1, 0, 1] + [0.3] * 3)
        chosen = draws()
    for mine, theirs in zip(chosen, real, strict=True):
        assert (mine.dtype, mine.shape, type(mine)) == (theirs.dtype, theirs.shape, type(theirs))
    assert chosen[1].item() == math.floor(0.3 * 2**53) / 2**53  # on torch's grid
    assert chosen[3].tolist() == [1, 1]
