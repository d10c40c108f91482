"""``simverify.exact_law``: right laws, with their type; and what it refuses, in one line."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

import simverify
from simverify import CannotEnumerate, SimverifyError, UsageError, exact_law


def dice(rng):
    return rng.integers(6) + rng.integers(6)


def test_two_dice_are_counted():
    counts = {}
    for a, b in itertools.product(range(6), repeat=2):
        counts[a + b] = counts.get(a + b, 0) + 1
    assert exact_law(dice) == {total: Fraction(n, 36) for total, n in counts.items()}


def test_the_likeliest_comes_first():
    assert next(iter(exact_law(dice))) == 5


@pytest.mark.parametrize(
    ("function", "law"),
    [
        (lambda rng: int(rng.integers(100) < 37), {0: Fraction(63, 100), 1: Fraction(37, 100)}),
        (lambda _: random.choice("ab"), {"a": Fraction(1, 2), "b": Fraction(1, 2)}),
        (lambda rng: rng.permutation(2), {(0, 1): Fraction(1, 2), (1, 0): Fraction(1, 2)}),
        (lambda _: "always", {"always": Fraction(1)}),
        (lambda rng: {int(rng.integers(2))}, {frozenset({n}): Fraction(1, 2) for n in (0, 1)}),
        (lambda rng: {"x": rng.integers(2)}, {(("x", n),): Fraction(1, 2) for n in (0, 1)}),
    ],
)
def test_equally_likely_ways_give_fractions(function, law):
    found = exact_law(function)
    assert found == law
    assert all(isinstance(p, Fraction) for p in found.values())


def test_a_uniform_gives_floats():
    found = exact_law(lambda rng: rng.random() < 0.25)
    assert found == {True: 0.25, False: 0.75}
    assert not any(isinstance(p, Fraction) for p in found.values())


def test_fractions_and_floats_meet_in_a_float():
    """One way to an outcome draws a die alone, the other a uniform too."""
    law = exact_law(lambda rng: bool(rng.integers(3) == 0 or rng.random() < 0.5))
    assert isinstance(law[True], float)
    assert law[True] == pytest.approx(2 / 3, abs=1e-15)


def test_a_law_agrees_with_plain_runs():
    """Of a function whose law nobody wrote down; and a wrong law is told apart."""

    def walk(rng):
        place = 0
        for _ in range(4):
            place += 1 if rng.random() < 0.4 else -1
            if place == 2:
                break
        return place

    law, rng, n = exact_law(walk), np.random.default_rng(1), 20_000
    seen = [walk(rng) for _ in range(n)]

    def far(law):
        return max(abs(seen.count(x) / n - p) for x, p in law.items())

    assert far(law) < 6.1 * 0.5 / n**0.5  # a binomial share, six standard deviations
    assert far({x: 1 / len(law) for x in law}) > 0.1


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda rng: rng.random(), CannotEnumerate, "a continuous draw as the outcome"),
        (lambda rng: 1 // int(rng.integers(3)), SimverifyError, "raised ZeroDivisionError"),
        (lambda _: np.random.default_rng(3).integers(5), SimverifyError, "seeded with the const"),
        (lambda _: (object(), bytearray()), SimverifyError, "not hashable"),
        (3, UsageError, "expected a function"),
    ],
)
def test_what_has_no_law_is_one_line(function, error, words):
    with pytest.raises(error, match=words) as refusal:
        exact_law(function)
    assert "\n" not in str(refusal.value)


def test_a_budget_that_ends_is_said():
    with pytest.raises(SimverifyError, match="more than 10 paths"):
        exact_law(lambda rng: rng.permutation(5), max_paths=10)


def test_it_is_a_name_of_the_package():
    assert "exact_law" in dir(simverify)
