"""A float16 uniform may be 1 and runs past a float16 CDF: clipped to the last token, due or not.

True TV about 0.02 by Monte Carlo (V = 4, gamma = 2, p = 4e-09).
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    u = np.float16(rng.random())
    u = np.float16(u * np.float16(1.05))
    return min(int((np.cumsum(w).astype(np.float16) <= u).sum()), len(w) - 1)


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
