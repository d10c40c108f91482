"""Uniforms that are used twice: found in few pairs, in rows of any kind, and not seen elsewhere."""

import numpy as np
import pytest
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import bet_test, order_key, pit_bounds, stream_sums

V = 20


def intervals(rng, n, share):
    """Two sides of ``n`` pairs, drawn from rows of their own, so many with one uniform."""
    first, second = rng.dirichlet(np.full(V, 0.3), (2, n))
    u = rng.random(n)
    v = np.where(rng.random(n) < share, u, rng.random(n))
    found = []
    for rows, draws in ((first, u), (second, v)):
        tokens = (np.cumsum(rows, axis=1) <= draws[:, None]).sum(axis=1).clip(0, V - 1)
        found.append(np.stack(pit_bounds(rows, order_key("index", rows), tokens)))
    return found


@pytest.mark.distribution
@pytest.mark.parametrize(("n", "share"), [(60, 1.0), (300, 0.5), (2000, 0.2)])
def test_repeated_uniforms_are_found_in_few_pairs(n, share):
    rng = np.random.default_rng(41)
    assert bet_test(stream_sums(*intervals(rng, n, share)), alpha=ALPHA).rejected
    assert not bet_test(stream_sums(*intervals(rng, n, 0.0)), alpha=ALPHA).rejected


@pytest.mark.distribution
def test_fresh_uniforms_are_called_repeated_no_more_often_than_alpha():
    rng = np.random.default_rng(42)

    def simulate(runs):
        return [
            bet_test(stream_sums(*intervals(rng, 50, 0.0)), alpha=0.5).log_pvalue
            for _ in range(runs)
        ]

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
def test_a_chain_may_overlap():
    """Pairs at a lag share tokens: each factor still has an expectation of 1."""
    rng = np.random.default_rng(43)

    def simulate(runs):
        found = []
        for _ in range(runs):
            ends = intervals(rng, 50, 0.0)[0]
            found.append(bet_test(stream_sums(ends[:, :-1], ends[:, 1:]), alpha=0.5).log_pvalue)
        return found

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


def test_a_token_of_no_mass_bets_nothing():
    sums = stream_sums([[0.2], [0.2]], [[0.1], [0.4]])
    np.testing.assert_allclose(sums.log_wealth, 0.0)


@pytest.mark.parametrize("ends", [[[0.0], [1.1]], [[0.5], [0.4]], [[0.1, 0.2]], [[], []]])
def test_what_is_no_interval(ends):
    with pytest.raises(ValueError, match=r"interval|shapes"):
        stream_sums(ends, ends)
