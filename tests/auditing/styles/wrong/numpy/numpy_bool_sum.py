"""Two bools are added to see whether exactly one is set; numpy's sum of bools is their or.

True TV about 0.1 by Monte Carlo (V = 3, gamma = 2, p = 2e-86).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    one = (rng.integers(0, 2, 1, dtype=bool) + rng.integers(0, 2, 1, dtype=bool))[0] == 1
    return (one + rng.random()) / 2 < a


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
