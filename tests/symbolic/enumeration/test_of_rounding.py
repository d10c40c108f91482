"""Paths that numbers do not repeat: what rounding made is counted, anything else is refused."""

import numpy as np
import pytest

from simverify.symbolic import CannotEnumerate, Enumeration

HIDDEN = [np.random.default_rng(3)]


def law_of(function):
    with Enumeration(function) as enumeration:
        return enumeration.run(
            lambda: (function(enumeration.rng),), max_paths=100, seconds=20, mark=lambda: None
        )


def between_bounds(rng):
    """Two bounds on one draw, 1e-11 apart, of which the sum rounds one by more."""
    u = rng.random()
    x = (u + 1e5) - 1e5
    return int(x < 0.31) + 2 * int(u < 0.31 + 1e-11)


def test_a_path_between_two_bounds_that_rounding_parts_is_left_out_and_counted():
    law = law_of(between_bounds)
    assert law.probabilities.keys() == {(3,), (0,)}
    assert law.pruned == pytest.approx(1e-11, rel=1e-3)
    assert sum(law.probabilities.values()) + law.pruned == pytest.approx(1, abs=1e-14)
    assert sum(end.weight for end in law.ends) + law.pruned == pytest.approx(1, abs=1e-14)


def test_such_a_path_leaves_no_trail():
    with Enumeration(between_bounds) as enumeration:
        enumeration.trails = []
        enumeration.run(lambda: (between_bounds(enumeration.rng),), max_paths=100, seconds=20)
        assert {trail.outcome.tokens for trail in enumeration.trails} == {(3,), (0,)}


@pytest.mark.parametrize("coins", [10, 5])
def test_a_light_path_of_wide_draws_is_none_of_rounding(coins):
    """Negative control: randomness that is not tracked is refused however little it weighs."""

    def rule(rng):
        if all(rng.random() < 0.1 for _ in range(coins)):
            return int(HIDDEN[0].random() < 0.5)
        return 0

    with pytest.raises(CannotEnumerate, match="not tracked"):
        law_of(rule)


def test_one_of_many_integers_is_none_of_rounding():
    """It weighs 2**-40, and is a number all the same."""

    def rule(rng):
        return int(HIDDEN[0].random() < 0.5) if rng.integers(2**39) == 5 else 0

    with pytest.raises(CannotEnumerate, match="not tracked"):
        law_of(rule)
