"""The residual's stream is spawned from a constant seed inside the call: one draw, for ever.

True TV about 0.4 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    child = np.random.default_rng(1234).spawn(1)[0]
    return int(child.choice(len(w), p=w))


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
