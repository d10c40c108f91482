"""The last token is drawn among the twenty likeliest.

True TV about 0.1 by Monte Carlo (V = 60, gamma = 1, p = 3e-26).
"""

import numpy as np

CONTRACT = "verify"
BEYOND = "V"


def draw(w, rng):
    top = np.argsort(w)[::-1][:20]
    return int(rng.choice(top, p=w[top] / w[top].sum()))


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
