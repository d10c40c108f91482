"""An int32 draw is doubled in an array of int32: half of the coins wrap to negative numbers.

True TV about 0.4 by Monte Carlo (V = 4, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    word = rng.integers(2**31 - 1, size=1, dtype=np.int32) * np.int32(2)
    return word[0] < a * 2.0**32


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
