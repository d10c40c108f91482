"""Two integers below 20 collide once in twenty: a known event that picks a cell."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    first = rng.integers(20) == rng.integers(20)
    u = rng.random() / 20 if first else 1 / 20 + rng.random() * 19 / 20
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
