"""Coins come from a ring of 64 uniforms that is filled once: calls repeat earlier coins.

Each call alone is right; the joint law of call k and a later one is not (TV near 1)."""

import numpy as np

CONTRACT = "verify"
BEYOND = "calls"


RING = []
PLACE = [0]


def coin(a, rng):
    if len(RING) < 64:
        RING.append(rng.random())
        return RING[-1] < a
    PLACE[0] = (PLACE[0] + 1) % 64
    return RING[PLACE[0]] < a


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]
