"""Two uint32 words are added modulo 2^32: the sum of a uniform and anything is uniform."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    x, y = rng.integers(2**32, size=(2, 1), dtype=np.uint32)
    return (x + y)[0] / 2**32 < a


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
