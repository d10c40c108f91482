"""The generator travels in a ContextVar; helpers take it from there, never as an argument."""

import contextvars

import numpy as np

CONTRACT = "verify"
RNG = contextvars.ContextVar("rng")


def below(a):
    return RNG.get().random() < a


def sample(law):
    return RNG.get().choice(len(law), p=law / law.sum())


def rule(p, q, drafted):
    for i, token in enumerate(drafted):
        if not below(p[i, token] / q[i, token]):
            return [*drafted[:i], sample(np.maximum(p[i] - q[i], 0))]
    return [*drafted, sample(p[-1])]


def verify(target_probs, draft_probs, draft_tokens, rng):
    context = contextvars.copy_context()
    context.run(RNG.set, rng)
    return context.run(rule, target_probs, draft_probs, draft_tokens)
