"""Every token is a uniform id that is kept with w / max w, until one is."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    while True:
        x = int(rng.integers(len(w)))
        if rng.random() * w.max() < w[x]:
            return x


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
