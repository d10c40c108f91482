"""A ratio in (.9, 1) is accepted without a coin.

TV up to .1 q(x) where a ratio lies there."""

import numpy as np

CONTRACT = "verify"
BEYOND = "ratio"


def coin(a, rng):
    return a > 0.9 or rng.random() < a


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
