"""A weighted reservoir of one: each token replaces what is kept with w / sum so far."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    kept, total = 0, 0.0
    for x, weight in enumerate(w.tolist()):
        total += weight
        if weight > 0 and rng.random() * total < weight:
            kept = x
    return kept


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
