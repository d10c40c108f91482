"""The enumerator of paths: every branch once, with its exact weight."""

from fractions import Fraction

import pytest

from simverify.symbolic.enumeration.paths import Coins, Path, TooManyPaths, explore

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def law(run, **options):
    total = {}
    for result, weight in explore(run, **options):
        total[result] = total.get(result, 0) + weight
    return total


def test_forks_of_different_depths():
    def run(path: Path) -> str:
        if path.fork((THIRD, 1 - THIRD)) == 0:
            return "left"
        return "right" + "abc"[path.fork((HALF, Fraction(0), HALF))]

    results = list(explore(run))
    assert results == [("left", THIRD), ("righta", THIRD), ("rightc", THIRD)]


def test_a_computation_without_chance_has_one_path():
    assert list(explore(lambda path: 7)) == [(7, 1)]


def test_zero_weights_are_never_run():
    seen = [path for path, _ in explore(lambda path: path.fork((0, 0, 1, 0)))]
    assert seen == [2]


def test_budget():
    def run(path: Path) -> tuple[int, ...]:
        return tuple(path.fork((HALF, HALF)) for _ in range(4))

    assert len(list(explore(run, max_paths=16))) == 16
    with pytest.raises(TooManyPaths, match="more than 15 paths"):
        list(explore(run, max_paths=15))


def test_choice():
    weights = [Fraction(1, 6), Fraction(0), Fraction(5, 6)]
    assert law(lambda path: Coins(path).choice(3, p=weights)) == {0: weights[0], 2: weights[2]}
    with pytest.raises(ValueError, match=r"choice\(2\) got 3 weights"):
        list(explore(lambda path: Coins(path).choice(2, p=weights)))


def test_uniform_forks_once_per_interval():
    """Three cuts of one uniform leave four intervals, whatever the order of comparison."""

    def run(path: Path) -> int:
        u = Coins(path).random()
        return (u < HALF) + (u < THIRD) + (u >= Fraction(3, 4)) * 10

    assert law(run) == {2: THIRD, 1: HALF - THIRD, 0: Fraction(1, 4), 10: Fraction(1, 4)}
    assert len(list(explore(run))) == 4


def test_uniform_at_the_ends_needs_no_fork():
    def run(path: Path) -> tuple[bool, ...]:
        u = Coins(path).random()
        return u < 0, u < 1, u < 2, u <= 0, u > -1, u >= 1

    assert list(explore(run)) == [((False, True, True, False, True, False), 1)]


def test_two_uniforms_are_independent():
    def run(path: Path) -> tuple[bool, bool]:
        coins = Coins(path)
        u, v = coins.random(), coins.random()
        return u < THIRD, v < THIRD

    assert law(run)[True, True] == THIRD * THIRD

    def shared(path: Path) -> tuple[bool, bool]:
        u = Coins(path).random()
        return u < THIRD, u < THIRD

    assert law(shared) == {(True, True): THIRD, (False, False): 1 - THIRD}


def test_comparison_the_other_way_round():
    assert law(lambda path: Coins(path).random() > THIRD) == {True: 1 - THIRD, False: THIRD}
    assert law(lambda path: Coins(path).random() < THIRD) == {True: THIRD, False: 1 - THIRD}
