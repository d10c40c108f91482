"""Integers of a type's whole range: what wraps around has the law that counting gives."""

import operator
import random
from collections import Counter
from fractions import Fraction

import numba
import numpy as np
import pytest
from support.fuzzing.wide import ENDS

from simverify.symbolic import CannotEnumerate, Enumeration
from simverify.symbolic.engine import Budget
from simverify.symbolic.integers import MixedInteger

TYPES = {kind.removeprefix("np."): ends for kind, ends in ENDS.items()}
SHORT = [kind for kind in TYPES if kind.endswith(("8", "16"))]

AFFINE = {
    "x * 2": (lambda x, kind: x * 2, 2, 0),
    "2 * x - 1": (lambda x, kind: 2 * x - 1, 2, -1),
    "x * int8(3)": (lambda x, kind: x * kind(3), 3, 0),
    "x + 100": (lambda x, kind: x + 100, 1, 100),
    "x - 7": (lambda x, kind: x - kind(7), 1, -7),
    "9 - x": (lambda x, kind: 9 - x, -1, 9),
    "-x": (lambda x, kind: -x, -1, 0),
    "x << 2": (lambda x, kind: x << 2, 4, 0),
    "-x * 3": (lambda x, kind: -x * 3, -3, 0),
}
"""What is done, and the line that it is, but for what wraps around."""


def law_of(function, kind):
    low, high = TYPES[kind]

    def code(rng):
        return [int(function(rng.integers(low, high, dtype=kind)))]

    with Enumeration(code) as enumeration:
        return enumeration.run(
            lambda: tuple(code(enumeration.rng)), Budget(20_000, 20)
        ).probabilities


def below(a, b, bound, kind):
    """How likely the line is below ``bound``, in the type, by counting in whole numbers."""
    low, high = TYPES[kind]
    size = high - low
    ends = [a * n + b - low for n in (low, high - 1)]
    count = 0
    for turn in range(min(ends) // size, max(ends) // size + 1):
        # turn * size + low <= a n + b < turn * size + bound
        first, last = turn * size + low - b, turn * size + bound - 1 - b
        if a < 0:
            first, last = -last, -first
        first, last = -(-first // abs(a)), last // abs(a)
        count += max(0, min(last, high - 1) - max(first, low) + 1)
    return Fraction(count, size)


def bounds_in(kind):
    low, high = TYPES[kind]
    return low + (high - low) // 3, low + 2 * (high - low) // 5, high - 50


@pytest.mark.parametrize("what", AFFINE)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.thorough
def test_a_line_that_wraps_around_is_below_a_bound_as_often_as_counted(kind, what):
    does, a, b = AFFINE[what]
    of = getattr(np, kind)
    for bound in bounds_in(kind):
        law = law_of(lambda x, bound=bound: does(x, of) < bound, kind)
        assert law.get((1,), 0.0) == pytest.approx(float(below(a, b, bound, kind)), abs=1e-12)


@pytest.mark.parametrize("what", ["x * 2", "9 - x", "x << 2"])
def test_a_line_that_did_not_wrap_around_would_have_another_law(what):
    """Negative control: the same line in Python's integers, which do not wrap around."""
    does, a, b = AFFINE[what]
    wrapped = below(a, b, bounds_in("uint32")[0], "uint32")
    plain = law_of(lambda x: does(int(x), int) < bounds_in("uint32")[0], "uint32")
    assert abs(plain.get((1,), 0.0) - float(wrapped)) > 0.1


def in_python(x):
    return x.astype(object) if isinstance(x, np.ndarray) else int(x)


DONE = {
    "abs": abs, "negative": operator.neg, "doubled": lambda x: x * 2,
    "by -1": lambda x: x // np.int8(-1), "shifted": lambda x: x << 2,
    "times int8(2)": lambda x: x * np.int8(2),
    "less 3": lambda x: x - 3, "clipped": lambda x: np.clip(x, -99, 99),
    "doubled in python": lambda x: in_python(x) * 2, "wider": lambda x: x * np.int64(5),
}  # fmt: skip
ASKED = {
    "its third": lambda x: x // 3000 == 1, "itself doubled": lambda x: x == x * 2,
    "its negative": lambda x: x < -x, "itself and 3": lambda x: x < x + 3, "odd": lambda x: x & 1,
    "a remainder": lambda x: in_python(x) % 5 == 2, "at most 100": lambda x: x <= 100,
    "a difference": lambda x: x - (x + 3) < 0, "bits": lambda x: x >> 13 == 1,
    "zero": lambda x: x == 0, "bits shifted out": lambda x: (x >> 1 << 1) < x,
    "by -1": lambda x: x // np.int64(-1) > 5,
}  # fmt: skip


def counted(function, kind):
    """The law by doing it to all values at once."""
    low, high = TYPES[kind]
    with np.errstate(all="ignore"):
        answers = function(np.arange(low, high, dtype=kind))
    return float(np.mean(np.asarray(answers, dtype=bool)))


@pytest.mark.parametrize("kind", ["int16", "uint16"])
@pytest.mark.parametrize("done", DONE)
@pytest.mark.thorough
def test_what_wraps_around_has_the_law_of_all_values_or_is_refused(kind, done):
    refused = {}
    for asked in ASKED:

        def does(x, asked=asked):
            return ASKED[asked](DONE[done](x))

        try:
            law = law_of(lambda x, does=does: bool(does(x)), kind)
        except CannotEnumerate as error:
            refused[asked] = str(error)
        else:
            assert law.get((1,), 0.0) == pytest.approx(counted(does, kind), abs=1e-12), asked
    assert not any("state kept between calls" in why for why in refused.values())
    assert len(refused) <= 7, refused


# Integers mixed as code mixes its seeds: of how many values they are one, and what they may do.


N = 5003
"""More values than are run one by one, and few enough to look at all of them here."""


def laws_of(function):
    with Enumeration(function) as enumeration:
        return enumeration.run(
            lambda: tuple(function(enumeration.rng)), Budget(10_000, 10)
        ).probabilities


def counted_mixed(mix, n=N):
    """Return of how many values ``mix`` of one of ``n`` integers is said to be one, if mixed."""
    found = []

    def code(rng):
        found.append(mix(rng.integers(n)))
        return [0]

    laws_of(code)
    return next((x.values for x in found if type(x) is MixedInteger), None)


@pytest.mark.parametrize("seed", range(40))
def test_as_many_values_as_there_are_about_equally_likely(seed):
    draw = random.Random(seed)
    scale, shift = draw.randrange(1, 2000), draw.randrange(-(10**6), 10**6)
    modulus = draw.choice([draw.randrange(1, 400), 2 ** draw.randrange(1, 14), 6 * scale])

    def mix(x):
        return (x * scale + shift) % modulus

    times = Counter(map(mix, range(N)))
    said = counted_mixed(mix)
    assert said == len(times)
    assert max(times.values()) <= 2 * N / said


def test_what_is_one_to_one_leaves_as_many():
    assert counted_mixed(lambda x: x ^ 12345) == N
    assert counted_mixed(lambda x: (3 * (x ^ 7) - 1) ^ 2) == N
    assert counted_mixed(lambda x: -((int(x) * 3) % 500) << 3) == 500
    assert counted_mixed(lambda x: -((x * 3) % 500) * 7) == 500


def test_more_integers_than_points_of_the_grid_are_all_counted():
    assert counted_mixed(lambda x: int(x) * 1_000_003 % 2**63, 2**62) == 2**62
    assert counted_mixed(lambda x: int(x) * 2**40 % 2**62, 2**62) == 2**22
    assert counted_mixed(lambda x: (int(x) + 2**62) ^ 1, 2**60) == 2**60


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


def test_a_ufunc_with_the_name_of_one_of_numpys_is_another():
    @numba.vectorize(["int64(int64, int64)"])
    def add(x, y):
        return x & 1

    def seeded(operation):
        def code(rng):
            operation(rng.integers(np.int64(2**40)) * 5 % 1001, 1)
            return [0]

        return laws_of(code)

    assert seeded(np.add) == {(0,): 1.0}
    assert add.__name__ == np.add.__name__
    with pytest.raises(CannotEnumerate, match="used for more than a seed"):
        seeded(add)


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
    assert counted_mixed(lambda x: (int(x) ^ 5) * 2**60) == N
