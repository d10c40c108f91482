"""Integers mixed as code mixes its seeds: of how many values they are one, and what they may do."""

import random
from collections import Counter

import numpy as np
import pytest

from simverify.symbolic import CannotEnumerate, Enumeration
from simverify.symbolic.draws.whole.mixed import Mixed

N = 5003
"""More values than are run one by one, and few enough to look at all of them here."""


def laws_of(function):
    with Enumeration(function) as enumeration:
        return enumeration.run(
            lambda: tuple(function(enumeration.rng)), max_paths=10_000, seconds=10
        ).probabilities


def counted(mix, n=N):
    """Return of how many values ``mix`` of one of ``n`` integers is said to be one, if mixed."""
    found = []

    def code(rng):
        found.append(mix(rng.integers(n)))
        return [0]

    laws_of(code)
    return next((x.values for x in found if type(x) is Mixed), None)


@pytest.mark.parametrize("seed", range(40))
def test_as_many_values_as_there_are_about_equally_likely(seed):
    draw = random.Random(seed)
    scale, shift = draw.randrange(1, 2000), draw.randrange(-(10**6), 10**6)
    modulus = draw.choice([draw.randrange(1, 400), 2 ** draw.randrange(1, 14), 6 * scale])

    def mix(x):
        return (x * scale + shift) % modulus

    times = Counter(map(mix, range(N)))
    said = counted(mix)
    assert said == len(times)
    assert max(times.values()) <= 2 * N / said


def test_what_is_one_to_one_leaves_as_many():
    assert counted(lambda x: x ^ 12345) == N
    assert counted(lambda x: (3 * (x ^ 7) - 1) ^ 2) == N
    assert counted(lambda x: -((int(x) * 3) % 500) << 3) == 500
    assert counted(lambda x: -((x * 3) % 500) * 7) == 500


def test_more_integers_than_points_of_the_grid_are_all_counted():
    assert counted(lambda x: int(x) * 1_000_003 % 2**63, 2**62) == 2**62
    assert counted(lambda x: int(x) * 2**40 % 2**62, 2**62) == 2**22
    assert counted(lambda x: (int(x) + 2**62) ^ 1, 2**60) == 2**60


def test_the_lowest_bits_of_few_periods_are_followed():
    law = laws_of(lambda rng: [int((rng.integers(2**20) & (2**19 - 1)) < 2**17)])
    assert law[(1,)] == pytest.approx(1 / 4, abs=1e-12)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x < 3, lambda x: x == 3, lambda x: x % 7, lambda x: [0, 1][x], lambda x: x / 2,
        lambda x: float(x), lambda x: {x: 1}, lambda x: x & 1, lambda x: x >> 3, lambda x: x + 0.5,
        lambda x: np.array([x]), lambda x: bool(x), lambda x: x * 0,
    ],
)  # fmt: skip
def test_it_is_a_seed_and_nothing_else(use):
    def code(rng):
        use(rng.integers(2**40) * 5 % 1001)
        return [0]

    with pytest.raises(CannotEnumerate, match="used for more than a seed"):
        laws_of(code)


def test_what_is_not_known_exactly_is_refused_as_before():
    with pytest.raises(CannotEnumerate, match="many periods"):
        laws_of(lambda rng: [int((rng.integers(10**7) // 3) % 100 == 1)])


@pytest.mark.parametrize(
    "lost", [lambda x: x * 2**60, lambda x: np.uint64(2**60) * x, lambda x: x << np.uint64(60)]
)
def test_what_wraps_around_is_of_fewer_values_and_refused(lost):
    """In 64 bits sixteen values are left, and in Python's integers as many as there were."""

    def code(rng):
        lost(rng.integers(2**63, dtype=np.uint64) ^ np.uint64(5))
        return [0]

    with pytest.raises(CannotEnumerate, match="used for more than a seed"):
        laws_of(code)
    assert counted(lambda x: (int(x) ^ 5) * 2**60) == N
