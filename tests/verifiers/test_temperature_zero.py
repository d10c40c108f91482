"""Temperature 0: exact on one-hot targets, lossy by design on all others."""

from fractions import Fraction

import numpy as np
import pytest
from support.instances import one_hot_pair, random_pair
from support.oracles.rule_laws import deviation, generation_deviation, sample_call

from simverify.models.base import compact, rational_markov, toy
from simverify.models.markov import markov
from simverify.verifiers import VERIFIERS
from simverify.verifiers.temperature_zero import TEMPERATURE_ZERO, mode


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_lossless_on_one_hot_targets(gamma):
    assert deviation(TEMPERATURE_ZERO, one_hot_pair(), gamma) == 0
    assert generation_deviation(TEMPERATURE_ZERO, one_hot_pair(), gamma, 3) == 0


@pytest.mark.parametrize("model", [toy(), compact(), *(random_pair(i, 3) for i in range(3))],
                         ids=lambda model: model.name)  # fmt: skip
def test_lossy_elsewhere(model):
    assert deviation(TEMPERATURE_ZERO, model, 2) > Fraction(1, 10)


def test_first_token_is_the_mode_alone():
    """TV 1/3 on the toy: its first token is never A."""
    assert deviation(TEMPERATURE_ZERO, toy(), 1) == Fraction(1, 3)


@pytest.mark.parametrize("other", ["token", "block", "match"])
def test_others_coincide_at_temperature_zero(other):
    """Target and draft one-hot: every rule emits the target's modes."""
    cold = [[Fraction(x == y) for x in range(3)] for y in (2, 0, 1)]
    draft = [[Fraction(x == y) for x in range(3)] for y in (2, 1, 1)]
    model = rational_markov("cold", cold[1], cold, draft[2], draft)
    due = [emitted for emitted, _ in sample_call(TEMPERATURE_ZERO, model, 3, 3)]
    assert [emitted for emitted, _ in sample_call(VERIFIERS[other], model, 3, 3)] == due
    assert due[0] == due[1]


def test_on_numpy_rows():
    model = markov(7)
    for emitted, drafted in sample_call(TEMPERATURE_ZERO, model, 4, 80):
        for i, token in enumerate(emitted):
            assert token == np.argmax(model.target(drafted[:i]))
        assert len(emitted) == 5 or emitted[-1] != drafted[len(emitted) - 1]


def test_lowest_id_among_equals():
    p = np.array([[0.2, 0.4, 0.4], [0.5, 0.0, 0.5]])
    assert TEMPERATURE_ZERO.rule(p, None, np.array([1]), None) == [1, 0]
    np.testing.assert_array_equal(mode(p), [[0, 1, 0], [1, 0, 0]])
