"""The share of the draft in the output: coverage, what healthy code certifies, edges."""

import math

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import best_certificate, leakage_certificate, plug_in_certificate

ROWS = np.array([[0.5, 0.3, 0.2], [0.1, 0.25, 0.65]])
DRAFT = np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])


def sample(rng, rows, tokens):
    return np.stack([rng.multinomial(tokens, row) for row in rows])


@pytest.mark.distribution
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_coverage(share):
    """The control is a bound from code without a leak, read at the same seed."""
    rng, repeats, delta = np.random.default_rng(97), 400, 0.1
    leaky = (1 - share) * ROWS + share * DRAFT
    bounds, healthy = (
        np.array(
            [
                leakage_certificate(sample(rng, law, 2000), ROWS, DRAFT, delta=delta).bound
                for _ in range(repeats)
            ]
        )
        for law in (leaky, ROWS)
    )
    allowed = stats.binom.isf(ALPHA, repeats, delta)
    assert (bounds < share).sum() <= allowed
    if share > 0.1:
        assert (healthy < share).sum() > allowed


def test_the_bound_is_where_the_likelihood_has_fallen_to_delta():
    counts = np.rint(2000 * ROWS).astype(int)
    bound = leakage_certificate(counts, ROWS, DRAFT, delta=0.01).bound
    assert 0.0 < bound < 0.2

    def log_ratio(share):
        return (counts * np.log(1 - share + share * DRAFT / ROWS)).sum()

    assert log_ratio(bound) == pytest.approx(math.log(0.01), rel=1e-6)
    # A larger sample leaves less room: as 1/sqrt(N).
    far = leakage_certificate(100 * counts, ROWS, DRAFT, delta=0.01).bound
    assert far == pytest.approx(bound / 10, rel=0.1)


def test_edges():
    none = np.zeros((2, 3), dtype=int)
    assert leakage_certificate(none, ROWS, DRAFT).bound == 1.0
    # A draft equal to the target leaks unseen.
    assert leakage_certificate(np.full((2, 3), 9), ROWS, ROWS).bound == 1.0
    rows, draft = np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 0.5, 0.5]])
    # One token that only the draft allows, and the leak cannot be bounded.
    assert leakage_certificate([[10**6, 0, 1]], rows, draft).bound == 1.0
    # Tokens that the draft excludes: (1-s)^n, and all of it at once.
    bound = leakage_certificate([[100, 0, 0]], rows, draft, delta=0.01).bound
    assert bound == pytest.approx(1 - 0.01 ** (1 / 100), rel=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="draft row 0 sums to"):
        leakage_certificate(np.ones((2, 3), int), ROWS, 0.9 * DRAFT)
    with pytest.raises(ValueError, match="draft has shape"):
        leakage_certificate(np.ones((2, 3), int), ROWS, DRAFT[:1])
    with pytest.raises(ValueError, match="delta is 0"):
        leakage_certificate(np.ones((2, 3), int), ROWS, DRAFT, delta=0)


def test_a_leak_and_a_distance_are_not_compared():
    counts = np.ones((2, 3), int)
    leak, distance = (
        leakage_certificate(counts, ROWS, DRAFT),
        plug_in_certificate(counts, ROWS),
    )
    with pytest.raises(ValueError, match="expected one quantity"):
        best_certificate(leak, distance)
