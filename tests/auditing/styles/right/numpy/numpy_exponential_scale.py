"""A race whose rates are the scale argument, one draw a token, zeros left out."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    arrivals = {x: rng.exponential(scale=1 / weight) for x, weight in enumerate(w) if weight > 0}
    return min(arrivals, key=arrivals.get)


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
