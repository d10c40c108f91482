"""np.trunc cuts toward zero: of -24 .. -1 by 8 seven are -0, and the code knows it."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    zero = np.trunc(rng.integers(-24, 0) / 8) == 0
    u = rng.random() * 7 / 24 if zero else 7 / 24 + rng.random() * 17 / 24
    return u < a


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
