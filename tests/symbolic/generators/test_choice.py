"""A choice without replacement, in the order in which numpy's own finds what it chooses."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from simverify import exact_law

TRIALS = 4_000
"""The control has a p-value of 0 in double precision, with half as many 4e-292."""
SIZES = [(3, 2), (3, 3), (4, 1), (4, 3), (5, 2)]


def drawn(n, count, **how):
    return lambda rng: tuple(rng.choice(n, count, replace=False, **how).tolist())


def log_p(law, function, seed):
    """P-value of numpy's own draws under a law; 0 where they leave its support."""
    rng = np.random.default_rng(seed)
    seen = Counter(function(rng) for _ in range(TRIALS))
    if not seen.keys() <= law.keys():
        return 0.0
    if len(law) == 1:
        return 1.0
    counts = [seen[x] for x in law]
    return stats.chisquare(counts, [float(p) * TRIALS for p in law.values()]).pvalue


@pytest.mark.parametrize(("n", "count"), SIZES)
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_law_is_that_of_numpys_own(n, count, shuffle):
    function = drawn(n, count, shuffle=shuffle)
    assert log_p(exact_law(function), function, 11) > 1e-9


@pytest.mark.parametrize(("n", "count"), [(3, 2), (4, 3)])
def test_without_shuffling_it_is_no_permutation(n, count):
    """The control: the law of the one is refuted by the other."""
    found = exact_law(drawn(n, count))
    assert log_p(found, drawn(n, count, shuffle=False), 11) < 1e-9


def test_more_than_there_are_is_refused_as_by_numpy():
    def refused(rng):
        try:
            return rng.choice(2, 3, replace=False, shuffle=False)
        except ValueError:
            return "refused"

    assert refused(np.random.default_rng(0)) == "refused"
    assert exact_law(refused) == {"refused": 1}


WEIGHTS = {3: [0.5, 0.2, 0.3], 4: [0.1, 0.0, 0.6, 0.3], 5: [0.3, 0.05, 0.2, 0.4, 0.05]}


@pytest.mark.parametrize(("n", "count"), [(3, 2), (3, 3), (4, 2), (4, 3), (5, 2)])
def test_with_weights_each_is_drawn_off_those_before(n, count):
    function = drawn(n, count, p=WEIGHTS[n])
    law = exact_law(function)
    assert sum(law.values()) == pytest.approx(1)
    for chosen, mass in law.items():
        due, left = 1.0, 1.0
        for x in chosen:
            due, left = due * WEIGHTS[n][x] / left, left - WEIGHTS[n][x]
        assert mass == pytest.approx(due, abs=1e-12)
    assert log_p(law, function, 12) > 1e-9
    legacy = np.random.RandomState(3)
    assert log_p(law, lambda _: function(legacy), 12) > 1e-9


def test_with_other_weights_it_is_another_law():
    """The control."""
    law = exact_law(drawn(3, 2, p=WEIGHTS[3]))
    assert log_p(law, drawn(3, 2, p=[0.45, 0.25, 0.3]), 12) < 1e-9


@pytest.mark.parametrize(("p", "count"), [([0.5, 0.5, 0.0], 3), ([0.2, 0.3, 0.5], 4)])
def test_weights_too_few_are_refused_as_by_numpy(p, count):
    def refused(rng):
        try:
            return tuple(rng.choice(3, count, replace=False, p=p))
        except ValueError as error:
            return str(error)

    said = refused(np.random.default_rng(0))
    assert exact_law(refused) == {said: 1}
