"""Faults of whole batches: right for each request alone, wrong for two together."""

import itertools
from collections import Counter

import numpy as np
import pytest

from simverify.faults import FAULTS
from simverify.faults.base import token_rule
from simverify.models import get_model
from simverify.symbolic.paths import ForkedGenerator, explore

MODEL = get_model("compact")
V, GAMMA = MODEL.vocab_size, 1
BATCHED = [name for name, fault in FAULTS.items() if fault.batch]
# What the two requests have said so far: their rows differ.
PROMPTS = ((0,), (1,))


def separate(target_probs, draft_probs, draft_tokens, rng):
    """Return what a correct batch does: every request by itself."""
    return [
        token_rule(*one, rng) for one in zip(target_probs, draft_probs, draft_tokens, strict=True)
    ]


def joint_law(rule, prompts):
    """Law of the first token of every request, (V,) * requests."""

    def run(path):
        coins, blocks = ForkedGenerator(path), []
        for prompt in prompts:
            q = MODEL.draft(prompt)
            x = int(coins.choice(V, p=q))
            blocks.append(
                (np.array([MODEL.target(prompt), MODEL.target((*prompt, x))]), q[None], [x])
            )
        batch = (np.stack([block[i] for block in blocks]) for i in range(3))
        return tuple(tokens[0] for tokens in rule(*batch, coins))

    law = np.zeros((V,) * len(prompts))
    for firsts, weight in explore(run):
        law[firsts] += weight
    return law


def due(prompts):
    """The targets' rows, independent of each other."""
    law = np.ones(())
    for prompt in prompts:
        law = np.multiply.outer(law, MODEL.target(prompt))
    return law


def test_the_batched_faults_are_these():
    assert BATCHED == ["ragged-offset", "swapped-requests", "shared-request-uniforms"]


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_one_request_is_right(name, prompt):
    assert np.abs(joint_law(FAULTS[name].rule, [prompt]) - due([prompt])).max() < 1e-12


@pytest.mark.parametrize("name", BATCHED)
def test_two_requests_are_not(name):
    assert np.abs(joint_law(FAULTS[name].rule, PROMPTS) - due(PROMPTS)).sum() / 2 > 0.05


def test_two_requests_of_a_correct_batch_are_right():
    assert np.abs(joint_law(separate, PROMPTS) - due(PROMPTS)).max() < 1e-12


def test_where_the_deviation_is():
    """Wrong rows move a request's own law; shared uniforms only tie the requests together."""
    for name in BATCHED:
        law, right = joint_law(FAULTS[name].rule, PROMPTS), due(PROMPTS)
        off = [np.abs((law - right).sum(axis=1 - i)).max() for i in range(2)]
        moved = max(off) > 0.01
        assert moved == (name != "shared-request-uniforms")
        assert moved or max(off) < 1e-12


def test_every_row_is_one_of_tokens():
    rng, requests = np.random.default_rng(3), 4
    rows = rng.dirichlet(np.ones(V), size=(2, requests, GAMMA + 1))
    for name, _ in itertools.product(BATCHED, range(20)):
        x = rng.integers(V, size=(requests, GAMMA))
        out = FAULTS[name].rule(rows[0], rows[1][:, :GAMMA], x, rng)
        counts = Counter(map(len, out))
        assert len(out) == requests
        assert set(counts) <= {1, 2}
        assert all(type(token) is int for tokens in out for token in tokens)
