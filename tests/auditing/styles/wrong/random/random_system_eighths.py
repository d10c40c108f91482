"""Coins of three bits of the system's generator: multiples of an eighth. TV .06."""

import random

import numpy as np

CONTRACT = "verify"

SYSTEM = random.SystemRandom()


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if SYSTEM.getrandbits(3) / 8 * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
