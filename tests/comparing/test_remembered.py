"""Exact curves are worked out once for the same rows, and anew for any others."""

from dataclasses import replace

import numpy as np
import pytest

from simverify.comparing import curves
from simverify.comparing.curves import acceptance_curves
from simverify.models import markov
from simverify.models.base import compact
from simverify.verifiers import VERIFIERS

GAMMA = 3


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    monkeypatch.setattr(curves, "_cache", {})


def curve(model, rule="block", gamma=GAMMA):
    rules = {rule: VERIFIERS[rule]}
    return acceptance_curves(model, rules, gamma, seed=0, threads=1)[rule]


def test_the_same_rows_are_worked_out_once():
    assert curve(markov(40)) is curve(markov(40))


@pytest.mark.parametrize("other", ["greedy", "gamma", "temperature"])
def test_anything_else_is_worked_out_for_itself(other):
    known = curve(markov(40))
    found = {
        "greedy": lambda: curve(markov(40), "greedy"),
        "gamma": lambda: curve(markov(40), gamma=GAMMA + 1),
        "temperature": lambda: curve(markov(40, temperature=0.5)),
    }[other]()
    assert list(found.middle) != list(known.middle)


def test_rows_that_were_written_into_are_other_rows():
    """Their owner may do so; what was found of them before would be another law's."""
    model = markov(40)
    model = replace(model, draft_rows=model.draft_rows.copy())
    before = curve(model)
    model.draft_rows[:] = model.target_rows
    after = curve(model)
    assert after.lower[-1] > before.upper[-1]
    assert list(after.lower) == list(curve(replace(model)).lower)


def test_fractions_are_told_from_the_floats_that_they_round_to():
    model = compact()
    assert curve(model).fraction is not None
    assert curve(replace(model, rational=None)).fraction is None


def test_the_oldest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(curves, "MAX_CACHED", 2)
    first = curve(markov(40))
    second = curve(markov(41))
    third = curve(markov(42))
    assert len(curves._cache) == 2
    assert curve(markov(42)) is third
    assert curve(markov(41)) is second
    again = curve(markov(40))
    assert again is not first
    np.testing.assert_array_equal(again.lower, first.lower)
