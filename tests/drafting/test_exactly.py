"""A drafter by layers in groups and a verifier, audited together on every path of their coins."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.levels import at_night
from support.real_models import VOCAB_SIZE, deep_model

import simverify
from simverify.drafting.easyspec import EasySpec

MODEL = deep_model()
FUZZILY = 2
"""So many tokens at the end of a text were drafted since the cache was calibrated."""


@cache
def row(prefix, vocab_size, wide):
    """The drafter's law (V,) after ``prefix``: of a model of more tokens, those that there are."""
    text = [0, *prefix]
    drafter = EasySpec(MODEL, 1, wide)
    exactly = max(len(text) - FUZZILY, 1)
    (logits,) = drafter.begin([text[:exactly]])
    for token in text[exactly:]:
        (logits,) = drafter.extend([token])
    law = np.exp(logits[:vocab_size].astype(np.float64))
    return law / law.sum()


def fuzzy(prefix, draft_row, k, rng):
    law = draft_row  # probes ask for a thousand tokens, which the model does not have
    if len(draft_row) <= VOCAB_SIZE:
        law = row(tuple(prefix), len(draft_row), 4)
    return rng.choice(len(law), size=k, p=law), law


def exactly_reported(prefix, draft_row, k, rng):
    tokens, _ = fuzzy(prefix, draft_row, k, rng)
    return tokens, row(tuple(prefix), len(draft_row), 1)


@pytest.mark.parametrize(
    "how",
    # A second draft is the first that is fuzzy: a chain of two has it, and trees have it often.
    at_night(
        ({"tree": "1,1", "vocab": 2}, {"gamma": 2, "vocab": 2}, {"gamma": 2, "vocab": 3}),
        but=({"tree": "1,1", "vocab": 2},),
    ),
    ids=str,
)
@pytest.mark.thorough
def test_what_reports_its_fuzzy_law_passes_and_what_reports_the_exact_one_fails(unprobed, how):
    run = simverify.audit(fuzzy, contract="draft", **how)
    assert (run.verdict, run.sampled) == ("PASS", None)
    run = simverify.audit(exactly_reported, contract="draft", **how)
    assert run.verdict == "FAIL"


@pytest.mark.slow
def test_so_it_is_together_with_a_verifier():
    run = simverify.audit(drafter=fuzzy, verifier="token", gamma=1, vocab=2)
    assert (run.verdict, run.sampled) == ("PASS", None)
    run = simverify.audit(drafter=exactly_reported, verifier="token", gamma=1, vocab=2)
    assert run.verdict == "FAIL"
