"""The first and the last number that a generator can draw: 0 accepts nothing that p never emits."""

from fractions import Fraction

import numpy as np
import pytest

from simverify.verifiers import get_verifier
from simverify.verifiers.base import MAX_WEIGHT, cap_ratio
from simverify.verifiers.greedy import GreedyBlock


class Always(np.random.Generator):
    """A generator whose every uniform is the same."""

    def __init__(self, uniform):
        super().__init__(np.random.PCG64(0))
        self.uniform = uniform

    def random(self, *args, **kwargs):
        return self.uniform


P = np.array([[0.0, 0.5, 0.5]] * 3)
Q = np.array([[1 / 3, 1 / 3, 1 / 3]] * 2)


@pytest.mark.parametrize("name", ["token", "block"])
@pytest.mark.parametrize("drafts", [[0, 1], [0, 0], [1, 0]])
def test_a_token_of_probability_zero_is_rejected_at_u_0(name, drafts):
    emitted = get_verifier(name).rule(P, Q, np.array(drafts), Always(0.0))
    assert 0 not in emitted
    assert len(emitted) == drafts.index(0) + 1


@pytest.mark.parametrize("name", ["token", "block"])
def test_others_are_accepted_at_u_0(name):
    emitted = get_verifier(name).rule(P, Q, np.array([1, 2]), Always(0.0))
    assert list(emitted[:2]) == [1, 2]
    assert len(emitted) == 3


def test_block_rejects_what_the_draft_cannot_have_drawn():
    """0/0 and p/0 count as 0: the token has no weight, and neither has what comes after it."""
    p = np.array([[0.5, 0.25, 0.25]] * 3)
    q = np.array([[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    for second in range(3):
        assert len(get_verifier("block").rule(p, q, np.array([0, second]), Always(0.0))) == 1


@pytest.mark.parametrize("name", ["token", "block"])
def test_a_token_that_rounding_alone_rejects_is_replaced_by_one_of_the_targets(name):
    """p/q is the last number below 1, and so is u; there is no residual to draw from."""
    last = 1 - 2**-53
    p = np.array([[1.0, 0.0], [0.0, 1.0]])
    p[0, 0] = last
    q = np.array([[1.0, 0.0]])
    assert get_verifier(name).rule(p, q, np.array([0]), Always(last)) == [0]


@pytest.mark.parametrize("drafts", [[0, 1], [0, 0], [1, 0]])
def test_nor_does_greedy_accept_one(drafts):
    emitted = GreedyBlock().judge(0, P, Q, drafts, Always(0.0))
    assert 0 not in emitted
    assert len(emitted) == drafts.index(0) + 1


def test_weights_are_cut_where_floats_would_overflow():
    assert [cap_ratio(x) for x in (0.5, MAX_WEIGHT, 1e200, np.inf)] == [
        0.5,
        MAX_WEIGHT,
        MAX_WEIGHT,
        MAX_WEIGHT,
    ]
    exact = Fraction(10) ** 200
    assert cap_ratio(exact) == exact
