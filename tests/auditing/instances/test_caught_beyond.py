"""Code that goes wrong on larger vocabularies, rare tokens, some prompts or long prefixes alone."""

import numpy as np
import pytest
from support.rules import narrow

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import verify_as_step
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import Subject
from simverify.verifiers import VERIFIERS


def masked(p, q, x, rng):
    """Keep the tokens with p > q in a mask of eight bits."""
    for i, t in enumerate(x):
        if not rng.random() < p[i][t] / q[i][t]:
            mask = np.packbits(p[i] > q[i], bitorder="little")[0]
            r = np.array(
                [(p[i] - q[i])[k] if k < 8 and mask >> k & 1 else 0 for k in range(len(p[i]))]
            )
            r = r if r.sum() > 0 else p[i]
            return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
    return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]


def wrong_at(vocab, gamma=1):
    """Return the token rule that takes the target for the residual at one size."""

    def verify(p, q, x, rng):
        hit = p.shape[1] == vocab and len(x) >= gamma
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                r = p[i] if hit else np.maximum(p[i] - q[i], 0)
                return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


def floored(p, q, x, rng):
    """Accept whatever the draft holds to be rarer than 1e-4."""
    for i, t in enumerate(x):
        if q[i][t] >= 1e-4 and not rng.random() < p[i][t] / q[i][t]:
            r = np.maximum(p[i] - q[i], 0)
            return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
    return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]


def clamped(p, q, x, rng):
    """Lose what of a residual is below 1e-5 once it is a law."""
    for i, t in enumerate(x):
        if not rng.random() < p[i][t] / q[i][t]:
            r = np.maximum(p[i] - q[i], 0)
            r /= r.sum()
            r[r < 1e-5] = 0
            return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
    return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]


def narrowly(p, q, x, rng):
    """Accept too much where q lies in a range of a hundredth."""
    for i, t in enumerate(x):
        ratio = p[i][t] / q[i][t] * (1.01 if 0.30 < q[i][t] < 0.31 else 1)
        if not rng.random() < ratio:
            r = np.maximum(p[i] - q[i], 0)
            return [*map(int, x[:i]), int(rng.choice(len(r), p=r / r.sum()))]
    return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]


def first_failure(rule, max_vocab, contract="verify"):
    models = instances_for(contract, 4, max_vocab, 0)
    subject = Subject("mine", verify_as_step(rule) if contract == "step" else rule, None)
    tier = run_exact_tier(subject, contract, models, tolerance=1e-9, searching=False)
    assert (tier.not_enumerable, tier.aborted, tier.skipped) == (None, None, [])
    return tier.failure and tier.failure.model.vocab_size


@pytest.mark.parametrize(
    ("rule", "contract", "vocab"),
    [
        (narrow(5), "verify", 8),
        (narrow(7), "verify", 12),
        (masked, "verify", 9),
        (wrong_at(6), "verify", 6),
        (wrong_at(8), "verify", 8),
        (wrong_at(12), "verify", 12),
        (wrong_at(4, gamma=4), "verify", 4),
        (wrong_at(5, gamma=4), "verify", 5),
        (floored, "verify", 3),
        (clamped, "verify", 3),
        (narrowly, "verify", 2),
        (narrow(2), "step", 4),
        (narrow(7), "step", 12),
        (wrong_at(4), "step", 4),
    ],
)
@pytest.mark.thorough
def test_faults_of_larger_vocabularies_and_rare_tokens_are_caught(rule, contract, vocab):
    # The first in the order of size: up to 5 tokens these rules are the token rule, and pass.
    assert first_failure(rule, 12, contract) == vocab


def forgetful(prefix, target, draft, gamma, rng):
    """Step right after short prefixes alone: sample the draft after longer ones."""
    row = target if len(prefix) < 9 else draft
    return [int(rng.choice(len(target(prefix)), p=row(prefix)))]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda prompt, gamma: len(prompt) % gamma > 0,
        lambda prompt, gamma: 0 < len(prompt) < gamma,
        lambda prompt, gamma: prompt and prompt[0] > 0,
        lambda prompt, gamma: prompt and prompt[-1] < prompt[0],
    ],
)
@pytest.mark.thorough
def test_code_that_a_kind_of_prompt_puts_wrong_is_caught(wrong):
    class Rule:
        def __init__(self):
            self.prompt = None

        def step(self, prefix, target, draft, gamma, rng):
            self.prompt = prefix if self.prompt is None else self.prompt
            row = draft if wrong(self.prompt, gamma) else target
            return [int(rng.choice(len(row(prefix)), p=row(prefix)))]

    models = instances_for("step", 2, 3, 0)
    tier = run_exact_tier(
        Subject("mine", Rule, None), "step", models, tolerance=1e-9, searching=False
    )
    assert tier.failure is not None
    assert tier.failure.model.prompt


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_window_of_the_context_is_too_little(kept):
    """Not all that comes before the window is zeros."""

    def step(prefix, target, draft, gamma, rng):
        def windowed(ids):
            return target((0,) * max(len(ids) - kept, 0) + tuple(ids[-kept:]))

        return verify_as_step(VERIFIERS["token"].verify)(prefix, windowed, draft, gamma, rng)

    models = [m for m in instances_for("step", 2, 2, 0) if m.family == "plain"]
    tier = run_exact_tier(
        Subject("mine", step, None), "step", models, tolerance=1e-9, searching=False
    )
    assert tier.failure is not None


@pytest.mark.parametrize("eos", [None, 0, 1])
def test_code_that_goes_wrong_after_a_long_prefix_is_caught(eos):
    models = instances_for("step", 4, 12, 0, eos)
    tier = run_exact_tier(
        Subject("mine", forgetful, None), "step", models, tolerance=1e-9, searching=False
    )
    assert tier.failure.model.prompt
    assert eos not in tier.failure.model.prompt
    short = [model for model in models if not model.prompt]
    tier = run_exact_tier(
        Subject("mine", forgetful, None), "step", short, tolerance=1e-9, searching=False
    )
    assert tier.failure is None
