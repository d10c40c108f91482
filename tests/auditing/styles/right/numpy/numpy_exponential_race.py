"""Token and coin are won by the first arrival of exponentials, method inv."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    first, second = rng.standard_exponential(2, method="inv")
    return first * (1 - a) < second * a


def draw(w, rng):
    arrivals = rng.standard_exponential(len(w), method="inv")
    with np.errstate(divide="ignore"):
        return int(np.argmin(arrivals / w))


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
