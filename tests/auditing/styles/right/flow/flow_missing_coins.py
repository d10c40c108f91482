"""Coins in a dict that draws what it misses; one dict a position."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


class Coins(dict):
    def __init__(self, rng):
        self.rng = rng

    def __missing__(self, key):
        self[key] = self.rng.random()
        return self[key]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if Coins(rng)[i] * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
