"""A twin refuses the parameters that numpy refuses, in numpy's words, and no others."""

import numpy as np
import pytest

from simverify.auditing.enumeration import enumerate_verify

P, Q, X = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.5, 0.5]]), np.array([0])
PARAMETERS = [
    ("uniform", (2, -1)),
    ("uniform", (-1, 2)),
    ("uniform", (1, 1)),
    ("uniform", (0.0, np.inf)),
    ("uniform", (0.0, np.nan)),
    ("uniform", ([0.0, 2.0], [1.0, 1.0])),
    ("exponential", (-1.0,)),
    ("exponential", ([1.0, -1.0],)),
    ("exponential", ([1.0, 2.0],)),
    ("gumbel", ([1.0, 2.0], 1.0)),
    ("gumbel", (0.0, -1.0)),
    ("gumbel", (0.0, 1.0)),
]


def said(function):
    """Type and words of what a call raises, None of one that draws."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize(("name", "parameters"), PARAMETERS)
def test_a_twin_says_what_numpy_says(name, parameters, make):
    heard = []

    def rule(p, q, x, rng):
        own = rng if make is np.random.default_rng else np.random.RandomState(3)
        heard.append(said(lambda: getattr(own, name)(*parameters)))
        return [0]

    law = enumerate_verify(rule, P, Q, X)
    assert law.probabilities == {(0,): 1.0}
    assert set(heard) == {said(lambda: getattr(make(3), name)(*parameters))}


def test_bounds_that_are_draws_are_followed():
    def rule(p, q, x, rng):
        return [int(rng.uniform(0.0, rng.uniform(1.0, 1.0)) < 0.25)]

    assert enumerate_verify(rule, P, Q, X).probabilities == {(0,): 0.75, (1,): 0.25}
