"""The coins of a call are drawn at the end of the call before, and used in the next two.

True TV about 0.06 by Monte Carlo (V = 3, gamma = 2, p = 4e-16).
"""

import numpy as np

CONTRACT = "verify"
BEYOND = "calls"


SPARE = {}


def coin(a, rng):
    if len(SPARE) == 2:
        return SPARE.popitem()[1] < a
    u = rng.random()
    SPARE[len(SPARE)] = u
    return u < a


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
