"""Eight bits over 255: the coin can be 1, and a ratio of k/255 is met.

True TV 0.00383 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import random

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return random.getrandbits(8) / 255 < a


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
