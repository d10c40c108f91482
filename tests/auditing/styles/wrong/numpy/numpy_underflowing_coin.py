"""The coin is scaled by 1e-323 and has two or three values.

True TV about 0.05 by Monte Carlo (V = 4, gamma = 2, p = 1e-13).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.random() * 2e-323 / 2e-323 < a


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
