"""The CDF is walked from the last token down."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    u = 1 - rng.random()
    for x in range(len(w) - 1, 0, -1):
        if u <= w[x]:
            return x
        u -= w[x]
    return 0 if w[0] > 0 else int(np.flatnonzero(w)[0])


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
