"""The race's rates and scales are exchanged.

True TV 0.0088 on the instance that the audit shows (V = 3, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(rng.exponential(size=len(w)) * w))


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
