"""np.rint is taken for half up: halved integers modulo 12 are not uniform.

True TV 0.00788 on the instance that the audit shows (V = 3, gamma = 2), exact.
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    cell = np.rint(rng.integers(24) / 2) % 12
    return (cell + rng.random()) / 12 < a


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
