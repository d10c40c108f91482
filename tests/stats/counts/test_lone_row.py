"""The exact law of a lone row's G2, held against sequences of tokens tried one by one."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from simverify import stats
from simverify.stats.counts.deviance import MOST, LoneRow, all_counts, outcomes

ROWS = {"thirds": (1 / 3, 1 / 3, 1 / 3), "apart": (0.6, 0.3, 0.1), "four": (0.4, 0.3, 0.2, 0.1)}


def by_sequences(probabilities, n):
    """Statistic and mass of every sequence of ``n`` tokens."""
    expected = n * np.array(probabilities)
    for tokens in itertools.product(range(len(probabilities)), repeat=n):
        counts = np.bincount(tokens, minlength=len(probabilities))
        mass = math.prod(probabilities[x] for x in tokens)
        yield 2.0 * special.kl_div(counts, expected).sum(), mass


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("n", [1, 4, 7])
def test_tails_are_those_of_all_sequences(row, n):
    law = LoneRow(n * np.array(ROWS[row]))
    pairs = list(by_sequences(ROWS[row], n))
    for statistic in {statistic for statistic, _ in pairs}:
        at_least = math.fsum(mass for x, mass in pairs if x > statistic - 1e-9)
        assert law.log_sf(statistic) == pytest.approx(math.log(at_least), rel=1e-9, abs=1e-9)


def test_nothing_lies_beyond_the_largest_statistic():
    law = LoneRow(np.array([2.0, 2.0, 2.0]))
    largest = 2.0 * 6 * math.log(3.0)
    assert law.log_sf(largest) == pytest.approx(math.log(3.0) - 6 * math.log(3.0))
    assert law.log_sf(largest + 1e-6) == -math.inf
    assert law.log_sf(-1.0) == 0.0


@pytest.mark.parametrize(("cells", "n"), [(1, 5), (2, 9), (3, 6), (5, 4)])
def test_all_counts_are_there_once(cells, n):
    counts = all_counts(cells, n)
    assert len(np.unique(counts, axis=0)) == len(counts) == outcomes(cells, n)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == n).all()


def test_a_lone_row_has_its_own_law_and_a_long_one_the_gamma():
    third = np.full((1, 3), 1 / 3)
    few = stats.g2_test(stats.transition_g2(np.array([[25, 3, 3]]), third), alpha=0.01)
    assert few.method == "G2, exact multinomial"
    many = next(n for n in itertools.count(300, 3) if outcomes(3, n) > MOST)
    long = stats.g2_test(stats.transition_g2(np.full((1, 3), many // 3), third), alpha=0.01)
    assert long.method == "G2, three-moment gamma"


def test_two_rows_are_no_lone_one():
    rows = np.full((2, 3), 1 / 3)
    found = stats.g2_test(stats.transition_g2(np.full((2, 3), 12), rows), alpha=0.01)
    assert found.method == "G2, three-moment gamma"


def test_a_gamma_would_be_too_light_on_a_lattice():
    """Why the law is needed: at one atom the gamma's tail is less than half of what it is."""
    third = np.full((1, 3), 1 / 3)
    found = stats.transition_g2(np.array([[25, 3, 3]]), third)
    first, second, third_cumulant = found.cumulants
    shape, scale = 4 * second**3 / third_cumulant**2, third_cumulant / (2 * second)
    law = LoneRow(found.pooled[0].expected)
    excess = [
        law.log_sf(x)
        - math.log(special.gammaincc(shape, (x - first + shape * scale) / scale))
        for x in sorted({2.0 * special.kl_div(c, 31 / 3).sum() for c in all_counts(3, 31)})
        if math.log(1e-6) < law.log_sf(x) < math.log(0.1)
    ]  # fmt: skip
    assert max(excess) > math.log(2.0)
