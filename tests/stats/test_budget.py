"""Shares of alpha."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simverify import stats
from simverify.stats import adjusted_pvalues, split_alpha
from simverify.stats.planning import plan_looks

# Explanations that fit places, held against matched ones: the level holds, fits are found.


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


def test_shares_follow_the_weights_in_order():
    shares = split_alpha(1e-6, {"ratios": 2, "scores": 1, "rest": 1.0})
    assert list(shares) == ["ratios", "scores", "rest"]
    assert shares == pytest.approx({"ratios": 5e-7, "scores": 2.5e-7, "rest": 2.5e-7})


@given(
    st.floats(1e-12, 0.99),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
)
def test_shares_never_exceed_alpha(alpha, weights):
    shares = split_alpha(alpha, {str(i): w for i, w in enumerate(weights)})
    total = sum(Fraction(share) for share in shares.values())
    assert total <= Fraction(alpha) * (1 + Fraction(1, 2**53))
    assert math.fsum(shares.values()) <= alpha
    assert total > Fraction(alpha) * (1 - Fraction(1, 10**14))


@pytest.mark.parametrize(
    ("alpha", "weights", "message"),
    [
        (0.0, {"a": 1}, "alpha is 0"),
        (0.1, {}, "weights are empty"),
        (0.1, {"a": 0.0}, "weight of 'a' is 0"),
        (0.1, {"a": 1, "b": math.nan}, "weight of 'b' is nan"),
    ],
)
def test_errors(alpha, weights, message):
    with pytest.raises(ValueError, match=message):
        split_alpha(alpha, weights)


def test_adjusted_p_values_are_holms():
    """By hand: the smallest times their number, and so on; none below an earlier one."""
    logs = np.log([0.01, 0.04, 0.03, 0.5])
    assert adjusted_pvalues(logs) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert adjusted_pvalues([-math.inf, -5000.0, 0.0]) == pytest.approx([0.0, 0.0, 1.0])


# Looks cover the run, and their shares add up to alpha.


def test_four_looks_with_their_shares():
    looks = plan_looks(1000, alpha=1e-6)
    assert [x.samples for x in looks] == [125, 250, 500, 1000]
    assert [x.alpha / 1e-6 for x in looks] == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2])


@pytest.mark.parametrize("samples", [1, 2, 3, 7, 8, 9, 1001])
def test_short_runs_have_fewer_looks_and_never_more_alpha(samples):
    looks = plan_looks(samples, alpha=0.01)
    counts = [x.samples for x in looks]
    assert counts == sorted(set(counts))
    assert counts[0] >= 1
    assert counts[-1] == samples
    assert looks[-1].alpha == 0.005
    assert sum(x.alpha for x in looks) <= 0.01


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="samples is 0"):
        plan_looks(0, alpha=0.01)
    with pytest.raises(ValueError, match="alpha is 1"):
        plan_looks(10, alpha=1)
