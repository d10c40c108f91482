"""The numpy references on every path of their draws, against the project's own rules."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from simverify.models.base import compact
from simverify.symbolic.paths import ForkedGenerator, explore
from simverify.verifiers import VERIFIERS

pytest.importorskip("torch")
GAMMA = 3


class ManyCoins(ForkedGenerator):
    """Coins that also come as an array, as the block reference takes them."""

    def random(self, size=None):
        if size is None:
            return super().random()
        return np.array([ForkedGenerator.random(self) for _ in range(size)], dtype=object)


@pytest.fixture(scope="module")
def references():
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        import references
    finally:
        sys.path.pop(0)
    return references.NUMPY


def laws(rule):
    """Law of the emitted tokens for every drafted block of the compact model."""
    model = compact()
    found = {}
    for tokens in itertools.product(range(3), repeat=GAMMA):
        p = np.array([model.target(tokens[:i]) for i in range(GAMMA + 1)])
        q = np.array([model.draft(tokens[:i]) for i in range(GAMMA)])
        paths = explore(
            lambda path, p=p, q=q, x=tokens: tuple(rule(p, q, list(x), ManyCoins(path)))
        )
        for emitted, weight in paths:
            found[tokens, emitted] = found.get((tokens, emitted), 0) + weight
    return found


def distance(a, b):
    return max(abs(a.get(key, 0) - b.get(key, 0)) for key in a.keys() | b.keys())


@pytest.mark.parametrize(("rule", "other"), [("token", "block"), ("block", "token")])
def test_law_of_every_drafted_block(references, rule, other):
    law = laws(references[rule])
    assert distance(law, laws(VERIFIERS[rule].rule)) < 1e-12
    assert distance(law, laws(VERIFIERS[other].rule)) > 0.01
