"""A coin that is read through a weak reference to its only owner."""

import weakref

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


class Coin:
    def __init__(self, value):
        self.value = value


def coin(rng):
    owner = Coin(rng.random())
    return weakref.ref(owner)().value


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coin(rng) * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
