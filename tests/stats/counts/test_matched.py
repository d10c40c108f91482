"""Explanations that fit places, held against matched ones: the level holds, fits are found."""

import itertools

import numpy as np
import pytest

from simverify import stats


def groups_of(rng, places=5, controls=6, rates=(0.6, 0.3, 0.05), likely=None):
    """Fits at ``rates``, the same for a place and its controls; ``likely`` replaces the places'."""
    found = []
    for _ in range(places):
        own = rng.random((1 + controls, len(rates))) < rates
        if likely is not None:
            own[0] = rng.random(len(rates)) < likely
        found.append(own)
    return found


def test_the_level_holds_with_all_explanations_counted_in():
    """Of 200 runs in which nothing is planted, a twentieth is named at .05: at most 18 of them."""
    rng = np.random.default_rng(1)
    least = [stats.matched_fits(groups_of(rng), seed=i, draws=299).chance.min() for i in range(200)]
    assert np.sum(np.array(least) <= 0.05) <= 18  # the binomial's tail beyond is .5%
    assert np.sum(np.array(least) <= 0.5) >= 40  # and it is no level that is never reached


def test_an_explanation_that_fits_all_places_is_found_and_one_that_fits_everywhere_is_not():
    rng = np.random.default_rng(2)
    found = stats.matched_fits(groups_of(rng, likely=(1.0, 0.3, 1.0), rates=(1.0, 0.3, 0.05)))
    assert found.fits[[0, 2]].tolist() == [5, 5]
    assert found.chance[2] <= 0.01 < 0.9 < found.chance[0]
    assert found.by_chance[2] < 0.2 < 0.9 < found.by_chance[0]


def test_chances_are_those_of_all_draws():
    """By enumeration of every way to draw a member of each group."""
    groups = groups_of(np.random.default_rng(3), places=3, controls=3, likely=(1.0, 0.0, 1.0))
    found = stats.matched_fits(groups, draws=40_000)
    ways = [sum(own[k].astype(int) for own, k in zip(groups, ks, strict=True))
            for ks in itertools.product(range(4), repeat=3)]  # fmt: skip
    ways = np.array(ways)
    tails = np.array([[(ways[:, h] >= k).mean() for k in ways[:, h]] for h in range(3)]).T
    own = (ways >= found.fits).mean(axis=0)
    np.testing.assert_allclose(found.tails, own)
    exact = [(tails.min(axis=1) <= tail + 1e-12).mean() for tail in own]
    np.testing.assert_allclose(found.chance, exact, atol=0.01)


def test_weights_say_who_could_have_been_it():
    """Where only members that fit could have been the place, its fit is worth nothing."""
    group = np.array([[True], [True], *[[False]] * 8])
    alike = [np.ones(10)] * 4
    unlike = [np.array([1.0, 1.0, *[1e-9] * 8])] * 4
    assert stats.matched_fits([group] * 4, alike).chance[0] < 0.01
    assert stats.matched_fits([group] * 4, unlike).chance[0] > 0.9
    alone = stats.matched_fits([group[:1]] * 4)
    assert (alone.chance[0], alone.by_chance[0]) == (1.0, 1.0)  # no control, no evidence


@pytest.mark.parametrize(
    ("groups", "weights", "words"),
    [
        ([], None, "one row or more"),
        ([np.zeros((0, 3), bool)], None, "one row or more"),
        ([np.zeros((2, 3), bool), np.zeros((2, 4), bool)], None, "different numbers"),
        ([np.zeros((2, 3), bool)], [np.ones(3)], "a weight for each member"),
    ],
)
def test_bad_input_is_told(groups, weights, words):
    with pytest.raises(ValueError, match=words):
        stats.matched_fits(groups, weights)
