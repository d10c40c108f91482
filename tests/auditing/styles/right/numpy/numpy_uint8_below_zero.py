"""A uint8 zero less one is 255: one of two cells."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    lower = (rng.integers(2, size=1, dtype=np.uint8) - np.uint8(1))[0] == 255
    return ((not lower) + rng.random()) / 2 < a


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
