"""Whether a seed is honoured, from answers alone."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import little_pair  # noqa: E402

from simverify.models.transformer import Sampling  # noqa: E402
from simverify.served.matrix import judge_seeds  # noqa: E402
from simverify.served.requests import Request  # noqa: E402

M, LENGTH = 12, 20


def drawn(seed, parts=None):
    """Answers of ``M`` requests; from place ``parts`` on they are others."""
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    found = []
    for _ in range(M):
        tokens = rng.integers(0, 12, LENGTH)
        if parts is not None:
            tokens[parts:] = other.integers(0, 12, LENGTH - parts)
        found.append(Request((1, 2), tuple(int(t) for t in tokens)))
    return found


@pytest.mark.parametrize(
    ("again", "other", "outcome", "words"),
    [
        (drawn(1), drawn(2), "honoured", "12 answers repeat"),
        (drawn(3), drawn(2), "dropped", "the same seed gives other answers"),
        (drawn(1), drawn(1), "other", "another seed gives the same answers"),
        (drawn(1, 14), drawn(2), "honoured", "0 of 12 answers repeat whole, 70%"),
        (drawn(1, 3), drawn(2), "other", "0 of 12 answers repeat whole, 1"),
    ],
)
def test_answers_tell_what_became_of_a_seed(again, other, outcome, words):
    found, why = judge_seeds(drawn(1), again, other, little_pair(), 1e-8)
    assert (found, why.startswith(words)) == (outcome, True), why


def test_answers_that_are_certain_tell_nothing():
    pair = dataclasses.replace(little_pair(), sampling=Sampling(temperature=0.0))
    greedy = []
    for prompt in ((1, 2), (3, 4)):
        tokens = []
        for _ in range(5):
            tokens.append(int(pair.target((*prompt, *tokens)).argmax()))
        greedy.append(Request(prompt, tuple(tokens)))
    outcome, _ = judge_seeds(greedy, greedy, greedy, pair, 1e-8)
    assert outcome == "inconclusive"
