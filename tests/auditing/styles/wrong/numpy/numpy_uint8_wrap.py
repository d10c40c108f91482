"""Two uint8 draws are added to spread the range, and wrap at 256: not triangular as inverted.

True TV about 0.2 by Monte Carlo (V = 3, gamma = 2, p = 1e-178).
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    x, y = rng.integers(128, size=2, dtype=np.uint8)
    total = (x + x + y) / 384
    return total < a


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
