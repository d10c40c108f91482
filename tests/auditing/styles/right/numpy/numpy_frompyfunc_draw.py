"""The inverse CDF is a frompyfunc ufunc that is reduced over pairs of token and weight."""

import numpy as np

CONTRACT = "verify"


STEP = np.frompyfunc(lambda u, c: int(u >= c), 2, 1)


def draw(w, rng):
    return int(STEP(rng.random(), np.cumsum(w)[:-1]).sum())


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
