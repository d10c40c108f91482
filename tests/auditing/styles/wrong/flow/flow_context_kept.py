"""A coin in a context variable that is set once: the same in every call. TV .33."""

from contextvars import ContextVar

import numpy as np

CONTRACT = "verify"

COIN = ContextVar("coin", default=None)


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def coin(rng):
    if COIN.get() is None:
        COIN.set(rng.random())
    return COIN.get()


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coin(rng) * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
