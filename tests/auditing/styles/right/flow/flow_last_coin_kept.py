"""The last coin of the call before says from which end the next ones are counted: any law is right.

It is compared before it is replaced, so a call begins with what an earlier one drew.
"""

import numpy as np

CONTRACT = "verify"

LAST = [0.25]


def turned(coin):
    return 1.0 - coin if LAST[0] > 0.5 else coin


def draw(weights, rng):
    return int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    coins = [turned(rng.random()) for _ in draft_tokens]
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[token] >= p[token]:
            token = draw(np.maximum(p - q, 0.0), rng)
            break
        kept.append(int(token))
    else:
        token = draw(target_probs[-1], rng)
    LAST[0] = rng.random()
    return [*kept, token]
