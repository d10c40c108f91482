"""A uniform from seven random bytes in base 256."""

import numpy as np

CONTRACT = "verify"


def uniform(rng):
    digits = rng.integers(256, size=7, dtype=np.uint8)
    return sum(int(d) << (8 * k) for k, d in enumerate(digits)) / 2**56


def coin(a, rng):
    return uniform(rng) < a


def draw(w, rng):
    u, last = uniform(rng), 0
    for token, weight in enumerate(w):
        if weight > 0:
            last = token
            if u < weight:
                return token
            u -= weight
    return last


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
