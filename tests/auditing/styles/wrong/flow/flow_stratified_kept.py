"""Coins are spread evenly from a shift that is the uniform of the call before: slots depend.

The shift is compared before it is replaced, so a call begins with what an earlier one drew.
"""

import numpy as np

CONTRACT = "verify"

SHIFT = [0.0]


def draw(weights, rng):
    SHIFT[0] = rng.random()
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[token] / q[token]
        if ratio >= 1 or (i + SHIFT[0]) / 2 % 1 < ratio:
            kept.append(int(token))
            continue
        return [*kept, draw(np.maximum(p - q, 0.0), rng)]
    return [*kept, draw(target_probs[-1], rng)]
