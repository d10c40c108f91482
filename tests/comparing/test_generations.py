"""Comparisons of whole generations: tokens after calls, and sequences that end."""

import math
from fractions import Fraction

import pytest
from support.false_alarms import ALPHA

import simverify

BLOCKS = 100_000
RULES = ["token", "block", "greedy", "match"]


def row(run, model, verifier):
    (found,) = [r for r in run.results if (r.model, r.verifier) == (model, verifier)]
    return found


def test_tokens_after_calls_are_the_known_fractions():
    run = simverify.compare(["toy"], ["block", "greedy"], gamma=2, calls=4, blocks=20_000)
    known = {
        "greedy": ["7/3", "40/9", "59/9", "26/3"],
        "block": ["20/9", "40/9", "60/9", "80/9"],
    }
    for name, fractions in known.items():
        calls = row(run, "toy", name).calls
        assert [entry.calls for entry in calls] == [1, 2, 3, 4]
        assert [Fraction(entry.fraction) for entry in calls] == [
            Fraction(text) for text in fractions
        ]
        assert [entry.exact for entry in calls] == pytest.approx(
            [float(Fraction(t)) for t in fractions]
        )


ENDING = ["4/3", "56/27", "604/243"]
"""Toy, gamma = 1, token 0 ends. A call drafts 0 (2/3) and keeps it (1/2): the end, 1 token;
or emits 1 instead: 1 token, alive; or drafts 1 (1/3), kept, with a bonus: 2 tokens, alive
with 2/3. So 4/3 tokens a call and 5/9 alive: 4/3 (1 + 5/9 + 25/81 + ...)."""


@pytest.fixture(scope="module")
def ended():
    return simverify.compare(
        ["toy"], ["token", "block"], gamma=1, calls=3, eos=0, blocks=BLOCKS, seed=9
    )


def test_tokens_after_calls_that_may_end(ended):
    assert ended.eos == 0
    for r in ended.results:
        assert [Fraction(entry.fraction) for entry in r.calls] == [
            Fraction(text) for text in ENDING
        ]


def far(entry, tokens, share):
    bound = 2 * entry.calls * math.sqrt(math.log(2 / share) / (2 * entry.measured.blocks))
    return abs(entry.measured.mean - tokens) > bound


@pytest.mark.distribution
def test_generations_end_as_often_as_they_should(ended):
    entries = [entry for r in ended.results for entry in r.calls]
    assert not any(far(entry, entry.exact, ALPHA / len(entries)) for entry in entries)


def test_generations_that_never_end_would_be_seen(ended):
    for r in ended.results:
        for entry in r.calls:
            assert far(entry, entry.calls * 5 / 3, ALPHA)
