"""A negative draw is floored, not truncated: -5 // 2 is -3, and the cells stay equal."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    # -12 ... -1 // 4 is -3, -2, -1 with equal chances; three tries choose a base-3 digit each.
    digit, n = 0, 0
    while 3**n < 3**34:
        digit, n = 3 * digit + int(rng.integers(-12, 0)) // 4 + 3, n + 1
    u = digit / 3**34
    return int(np.searchsorted(np.cumsum(w[:-1]), u, side="right"))


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
