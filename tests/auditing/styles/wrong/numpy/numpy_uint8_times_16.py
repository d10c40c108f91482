"""Twenty cells times 16 in uint8: the last four wrap to the first.

True TV about 0.1 by Monte Carlo (V = 3, gamma = 2, p = 1e-144).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    x = rng.integers(20, size=1, dtype=np.uint8) * np.uint8(16)
    return (x[0] / 16 + rng.random()) / 20 < a


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
