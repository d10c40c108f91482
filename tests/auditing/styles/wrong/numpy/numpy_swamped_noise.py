"""Gumbel noise in float32 with 1e5 added: steps of 2^-7, and ties go to the first token.

True TV about 0.08 by Monte Carlo (V = 3, gamma = 2, p = 9e-32).
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    with np.errstate(divide="ignore"):
        noise = np.float32(1e5) + rng.gumbel(size=len(w)).astype(np.float32)
        scores = (noise + np.log(w).astype(np.float32)) * np.float32(1)
    return int(np.argmax(np.round(scores, 0)))


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
