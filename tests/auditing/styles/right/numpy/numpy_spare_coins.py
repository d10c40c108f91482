"""Coins are drawn in pairs; the one that is left over serves the next call."""

import numpy as np

CONTRACT = "verify"


SPARE = []


def coin(a, rng):
    if not SPARE:
        SPARE.extend(rng.random(2))
    return SPARE.pop() < a


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
