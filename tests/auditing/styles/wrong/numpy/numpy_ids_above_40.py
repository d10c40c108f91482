"""The residual leaves out ids above 40.

True TV about 0.2 by Monte Carlo (V = 60, gamma = 1, p = 4e-223).
"""

import numpy as np

CONTRACT = "verify"
BEYOND = "V"


def draw(w, rng):
    w = np.where(np.arange(len(w)) > 40, 0, w)
    return int(rng.choice(len(w), p=w / w.sum()))


def coin(a, rng):
    return rng.random() < a


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
