"""A constant seed sequence of 128 bits, as copied from a manual: the same coin in each call.

True TV about 0.6 by Monte Carlo (V = 4, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    entropy = np.random.SeedSequence(0x8C3C010CB4754C905776BDAC5EE7501)
    return np.random.default_rng(entropy).random() < a


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
