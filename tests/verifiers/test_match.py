"""Sample and match: lossless, never reads the draft's rows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.instances import disjoint_pair, one_hot_pair, random_pair
from support.oracles.oracle_laws import add_up
from support.oracles.rule_laws import deviation, sample_call

from simverify.models.base import compact, rational_markov, toy
from simverify.simulators.exact.laws import START, laws_by_paths, markov_rows
from simverify.verifiers import VERIFIERS
from simverify.verifiers.base import draw
from simverify.verifiers.match import MATCH

MODELS = [toy(), compact(), one_hot_pair(), disjoint_pair(), *(random_pair(i, 3) for i in range(4))]


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_lossless(model, gamma):
    assert deviation(MATCH, model, gamma) == 0


def redraws(target_probs, draft_probs, draft_tokens, rng):
    """Draws again after a mismatch instead of keeping the target's own token."""
    tokens = VERIFIERS["match"].rule(target_probs, draft_probs, draft_tokens, rng)
    p = target_probs[len(tokens) - 1]
    return [*tokens[:-1], draw(p, p, rng)]


def test_drawing_again_is_lossy():
    assert deviation(replace(MATCH, rule=redraws), compact(), 2) > Fraction(1, 100)


@pytest.mark.parametrize("other", ["token", "block"])
def test_same_law_as_other_rules_with_a_one_hot_draft(other):
    """Their q is the drafted token's one-hot row, whatever it was drawn from."""

    def one_hot(target_probs, draft_probs, draft_tokens, rng):
        q = np.array([[Fraction(x == y) for y in range(3)] for x in draft_tokens])
        return VERIFIERS[other].rule(target_probs, q, draft_tokens, rng)

    def tokens(verifier):
        law = laws_by_paths(verifier, markov_rows(compact()), 3)(START, (), 4)
        return add_up((emitted, weight) for (emitted, _), weight in law.items())

    assert tokens(replace(VERIFIERS[other], rule=one_hot)) == tokens(MATCH)
    assert tokens(VERIFIERS[other]) != tokens(MATCH)


def test_on_numpy_rows():
    for model in MODELS:
        for emitted, drafted in sample_call(MATCH, model, 4, 50):
            assert emitted[:-1] == drafted[: len(emitted) - 1]
            if len(emitted) <= 4:
                assert emitted[-1] != drafted[len(emitted) - 1]


def test_draft_rows_are_not_read():
    rng = np.random.default_rng(3)
    p = np.full((3, 2), 0.5)
    assert len(MATCH.rule(p, np.full((2, 2), np.nan), np.array([0, 1]), rng)) in (1, 2, 3)


def test_certain_target_and_draft_agree():
    row = [Fraction(0), Fraction(1)]
    model = rational_markov("certain", row, [row], row, [row])
    assert [emitted for emitted, _ in sample_call(MATCH, model, 3, 5)] == [[1, 1, 1, 1]] * 5
