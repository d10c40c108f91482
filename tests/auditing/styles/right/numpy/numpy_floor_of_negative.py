"""Negative draws are floored by //, not cut off: -24 .. -1 by 8 has three equal cells."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    cell = int(rng.integers(-24, 0)) // 8 + 3
    return (cell + rng.random()) / 3 < a


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
