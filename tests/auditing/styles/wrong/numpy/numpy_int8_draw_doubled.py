"""An int8 draw below 100 is doubled: half of the cells turn negative.

True TV about 0.3 by Monte Carlo (V = 4, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    x = rng.integers(100, size=1, dtype=np.int8) * np.int8(2)
    return (x[0] / 2 + rng.random()) / 100 < a


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
