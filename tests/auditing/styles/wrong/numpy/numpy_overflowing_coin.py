"""The coin is scaled to 1e309 and back: above the largest float it is infinite, and rejects.

True TV about 0.2 by Monte Carlo (V = 3, gamma = 2, p = 1e-148).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.random() * 1.7e308 * 2 / 2 < a * 1.7e308


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
