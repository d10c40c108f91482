"""The enumerator of paths: every branch once, with its exact weight."""

import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from simverify.symbolic import CannotEnumerate, Enumeration
from simverify.symbolic.engine import Budget
from simverify.symbolic.forms import IDENTITY_FORM, Form
from simverify.symbolic.paths import ForkedGenerator, Path, TooManyPaths, explore

# Paths that numbers do not repeat: what rounding made is counted, anything else is refused.


HIDDEN = [np.random.default_rng(3)]


def law_of(function):
    with Enumeration(function) as enumeration:
        return enumeration.run(
            lambda: (function(enumeration.rng),), Budget(100, 20), mark=lambda: None
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
        enumeration.run(lambda: (between_bounds(enumeration.rng),), Budget(100, 20))
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

    assert len(list(explore(run, most=16))) == 16
    with pytest.raises(TooManyPaths, match="more than 15 paths"):
        list(explore(run, most=15))


def test_choice():
    weights = [Fraction(1, 6), Fraction(0), Fraction(5, 6)]
    assert law(lambda path: ForkedGenerator(path).choice(3, p=weights)) == {
        0: weights[0],
        2: weights[2],
    }
    with pytest.raises(ValueError, match=r"choice\(2\) got 3 weights"):
        list(explore(lambda path: ForkedGenerator(path).choice(2, p=weights)))


def test_uniform_forks_once_per_interval():
    """Three cuts of one uniform leave four intervals, whatever the order of comparison."""

    def run(path: Path) -> int:
        u = ForkedGenerator(path).random()
        return (u < HALF) + (u < THIRD) + (u >= Fraction(3, 4)) * 10

    assert law(run) == {2: THIRD, 1: HALF - THIRD, 0: Fraction(1, 4), 10: Fraction(1, 4)}
    assert len(list(explore(run))) == 4


def test_uniform_at_the_ends_needs_no_fork():
    def run(path: Path) -> tuple[bool, ...]:
        u = ForkedGenerator(path).random()
        return u < 0, u < 1, u < 2, u <= 0, u > -1, u >= 1

    assert list(explore(run)) == [((False, True, True, False, True, False), 1)]


def test_two_uniforms_are_independent():
    def run(path: Path) -> tuple[bool, bool]:
        coins = ForkedGenerator(path)
        u, v = coins.random(), coins.random()
        return u < THIRD, v < THIRD

    assert law(run)[True, True] == THIRD * THIRD

    def shared(path: Path) -> tuple[bool, bool]:
        u = ForkedGenerator(path).random()
        return u < THIRD, u < THIRD

    assert law(shared) == {(True, True): THIRD, (False, False): 1 - THIRD}


def test_comparison_the_other_way_round():
    assert law(lambda path: ForkedGenerator(path).random() > THIRD) == {
        True: 1 - THIRD,
        False: THIRD,
    }
    assert law(lambda path: ForkedGenerator(path).random() < THIRD) == {
        True: THIRD,
        False: 1 - THIRD,
    }


EXPONENTIAL = Form("ea", 1.0, 0.0)
CHAINS = {
    "1 - u": IDENTITY_FORM.affine(-1, 1),
    "3u - 1": IDENTITY_FORM.affine(3, -1),
    "-log u": IDENTITY_FORM.log().affine(-1, 0),
    "-log(1 - u)": IDENTITY_FORM.affine(-1, 1).log().affine(-1, 0),
    "u ** 3": IDENTITY_FORM.power(3),
    "(2u) ** -.5": IDENTITY_FORM.affine(2, 0).power(-0.5),
    "gumbel + 2": EXPONENTIAL.log().affine(-1, 2),
    ".3 / E": EXPONENTIAL.power(-1).affine(0.3, 0),
    "exp gumbel": EXPONENTIAL.log().affine(-1, 0).exp(),
    "exp(-2 E)": EXPONENTIAL.affine(-2, 0).exp(),
    "1 / (1 + E)": EXPONENTIAL.affine(1, 1).power(-1),
    "log(1 + u)": IDENTITY_FORM.affine(1, 1).log(),
    "exp(u) - 1": IDENTITY_FORM.exp().affine(1, -1),
    "(1 - (1 - u)**2)**.5": IDENTITY_FORM.affine(-1, 1).power(2).affine(-1, 1).power(0.5),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_forms_threshold_inverts_its_value(name):
    form = CHAINS[name]
    for u in (0.01, 0.3, 0.5, 0.77, 0.999):
        t, increasing = form.threshold(form.value(u))
        assert t == pytest.approx(u, rel=1e-9)
        assert increasing == (form.value(u + 1e-4) > form.value(u))


def laws_of(function):
    with Enumeration(function) as enumeration:
        return enumeration.run(
            lambda: tuple(function(enumeration.rng)), Budget(10_000, 10)
        ).probabilities


@pytest.mark.parametrize(
    "keys",
    [
        lambda rng, w: rng.exponential(size=4) / w,
        lambda rng, w: rng.exponential(1 / w),
        lambda rng, w: -(np.log(w) + rng.gumbel(size=4)),
        lambda rng, w: -(rng.random(4) ** (1 / w)),
        lambda rng, w: -w / rng.standard_exponential(4),
        lambda rng, w: np.log(rng.random(4)) / -w,
    ],
)
def test_sorted_races_follow_plackett_luce(keys):
    w = np.array([0.1, 0.5, 0.25, 0.15])
    law = laws_of(lambda rng: np.argsort(keys(rng, w)).tolist())
    assert len(law) == 24
    for order in itertools.permutations(range(4)):
        left, due = w.sum(), 1.0
        for i in order:
            due *= w[i] / left
            left -= w[i]
        assert law[order] == pytest.approx(due, abs=1e-14)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_product_of_uniforms_is_a_gamma_in_logs(k):
    for c in (0.02, 0.4, 0.9):
        law = laws_of(lambda rng, c=c: [int(np.prod(rng.random(k)) < c)])
        assert law[(1,)] == pytest.approx(stats.gamma.sf(-math.log(c), k), abs=1e-13)


def test_partial_products_compared_in_turn_match_integration():
    cuts = (0.6, 0.5, 0.2)
    law = laws_of(lambda rng: (np.cumprod(rng.random(3)) < cuts).astype(int).tolist())
    grid = (np.arange(2000) + 0.5) / 2000
    u, v = np.meshgrid(grid, grid)
    first, second = u < cuts[0], u * v < cuts[1]
    third = np.minimum(1, cuts[2] / (u * v))
    for a, b, c in itertools.product((0, 1), repeat=3):
        due = np.mean((first == a) * (second == b) * (third if c else 1 - third))
        assert law.get((a, b, c), 0.0) == pytest.approx(due, abs=2e-3)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("wrap", [float, np.float64, np.array, lambda c: np.array([c])])
def test_comparisons_work_from_both_sides(compare, wrap):
    below = compare in (operator.lt, operator.le)
    left = laws_of(lambda rng: [int(bool(compare(rng.random(), wrap(0.3))))])
    right = laws_of(lambda rng: [int(bool(compare(wrap(0.3), rng.random())))])
    assert left[(1,)] == pytest.approx(0.3 if below else 0.7)
    assert right[(1,)] == pytest.approx(0.7 if below else 0.3)


def test_nothing_compares_with_nan():
    assert laws_of(lambda rng: [int(rng.random() < math.nan), int(rng.random() >= math.nan)]) == {
        (0, 0): 1.0
    }


def test_a_narrowed_uniform_keeps_its_identity():
    def twice(rng):
        u = rng.random()
        return [int(u < 0.5), int(1 - u < 0.75)]

    law = laws_of(twice)
    assert law == pytest.approx({(1, 1): 0.25, (1, 0): 0.25, (0, 1): 0.5})


@pytest.mark.parametrize("first", [np.argmin, lambda e: np.argmax(1 / e), lambda e: e.argmin()])
def test_a_race_forks_once_for_its_winner_and_keeps_to_it(first):
    w = np.array([0.1, 0.5, 0.25, 0.15])

    def rule(rng):
        times = rng.exponential(size=4) / w
        winner = first(times)
        return [winner, *(np.argsort(times) if winner == 2 else ())]

    law = laws_of(rule)
    assert sum(len(outcome) == 1 for outcome in law) == 3
    assert all(outcome[1] == 2 for outcome in law if len(outcome) > 1)
    for order in itertools.permutations((0, 1, 3)):
        left, due = 1.0, 1.0
        for i in (2, *order):
            due *= w[i] / left
            left -= w[i]
        assert law[(2, 2, *order)] == pytest.approx(due, abs=1e-14)


def test_a_race_with_numbers_that_cannot_win_leaves_them_out():
    with np.errstate(divide="ignore"):
        logits = np.log([0.0, 0.25, 0.75])
    assert laws_of(lambda rng: [np.argmax(logits + rng.gumbel(size=3))]) == pytest.approx(
        {(1,): 0.25, (2,): 0.75}
    )
    # One that can win is compared with every draw.
    law = laws_of(lambda rng: [np.argmax(np.where([True, False], 0.5, rng.random(2)))])
    assert law == pytest.approx({(0,): 0.5, (1,): 0.5})
