"""Random integers out of many: two branches where they are compared, all where they are read."""

import math
import random

import numpy as np
import pytest

from simverify.auditing.enumeration import enumerate_verify

torch = pytest.importorskip("torch")
ROWS = np.full((2, 3), 1 / 3)


def law_of(function):
    return enumerate_verify(lambda p, q, x, rng: [int(function(rng))], ROWS, ROWS[:1], [0])


COMPARED = {
    "integers": lambda rng: rng.integers(256) / 256 < 0.3,
    "few integers": lambda rng: rng.integers(0, 20) < 6,
    "several": lambda rng: (rng.integers(256, size=2) < 77)[1],
    "choice": lambda rng: rng.choice(256) < 77,
    "int": lambda rng: int(rng.random() * 256) < 77,
    "int of an element": lambda rng: int(rng.random(1)[0] * 256) / 256 < 0.3,
    "an annotated int": lambda rng: isinstance(n := int(rng.random() * 256), int) and n < 77,
    "math.floor": lambda rng: math.floor(rng.random() * 256) < 77,
    "math.trunc": lambda rng: math.trunc(256 * rng.random()) < 77,
    "floor": lambda rng: np.floor(rng.random() * 256) < 77,
    "astype": lambda rng: ((rng.random(2) * 256).astype(np.int64) < 77)[1],
    "random": lambda rng: random.randint(0, 255) / 256 < 0.3,
    "getrandbits": lambda rng: random.getrandbits(8) < 77,
    "torch.randint": lambda rng: torch.randint(0, 256, (2,))[1] / 256 < 0.3,
    "torch.long": lambda rng: (torch.rand(2) * 256).long()[1] < 77,
    "torch in place": lambda rng: torch.zeros(2, dtype=torch.int64).random_(256)[0] < 77,
    "torch as floats": lambda rng: (torch.randint(256, (1,)) + 1).float().item() <= 77,
    "torch int": lambda rng: int(torch.rand(()) * 256) < 77,
}


@pytest.mark.parametrize("how", COMPARED)
def test_what_is_compared_takes_two_branches(how):
    law = law_of(COMPARED[how])
    due = 0.3 if how == "few integers" else 77 / 256
    assert law.probabilities == {(0,): pytest.approx(1 - due), (1,): pytest.approx(due)}
    assert law.paths <= 4
    assert (law.findings, law.lost) == ((), 0.0)


def by_type(rng):
    n = int(rng.random() * 256)
    return n % 2 if type(n) is int else 2


def refusing(rng):
    n = int(rng.random() * 256)
    if type(n) is not int:
        raise TypeError("an int is due")
    return n < 64


READ = {
    "its last bit": (lambda rng: int(rng.random() * 256) % 2, [0.5, 0.5]),
    "its bits": (lambda rng: (int(rng.random() * 64) & 3) > 2, [0.75, 0.25]),
    "an index": (lambda rng: ([0] * 192 + [1] * 64)[int(rng.random() * 256)], [0.75, 0.25]),
    "an index of an array": (
        lambda rng: np.arange(256)[(rng.random(1) * 256).astype(int)][0] >= 192, [0.75, 0.25]
    ),
    "an index of a tensor": (
        lambda rng: torch.arange(256)[torch.randint(256, (1,))][0] >= 192, [0.75, 0.25]
    ),
    "both sides of zero": (lambda rng: int(rng.random() * 100 - 50) > 24, [0.75, 0.25]),
    "twice": (lambda rng: (n := int(rng.random() * 256)) < 64 and n < 128, [0.75, 0.25]),
    "in part": (lambda rng: (n := rng.integers(256)) >= 64 and n < 128, [0.75, 0.25]),
    "by its type": (by_type, [0.5, 0.5]),
    "where its type matters": (refusing, [0.75, 0.25]),
    "in text": (lambda rng: len(str(int(rng.random() * 100))) < 2, [0.9, 0.1]),
    "a count": (lambda rng: sum(1 for _ in range(int(rng.random() * 40))) >= 30, [0.75, 0.25]),
}  # fmt: skip


@pytest.mark.parametrize("how", READ)
def test_what_is_read_has_its_law_too(how):
    function, due = READ[how]
    law = law_of(function)
    assert [law.probabilities.get((i,), 0.0) for i in range(2)] == pytest.approx(due, abs=1e-12)
    assert (law.findings, law.lost) == ((), 0.0)


def test_a_biased_grid_is_seen():
    """Negative control: one step of 256 less is another law."""
    law = law_of(lambda rng: int(rng.random() * 256) / 256 <= 76.5 / 256)
    assert law.probabilities[1,] == pytest.approx(77 / 256)
    law = law_of(lambda rng: int(rng.random() * 255) / 256 < 0.3)
    assert law.probabilities[1,] == pytest.approx(77 / 255)
