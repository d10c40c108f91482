"""All coins are kept to count how many were below one half: a statistic that decides nothing."""

import numpy as np

CONTRACT = "verify"


PAST = []
BELOW = [0]


def coin(a, rng):
    u = rng.random()
    PAST.append(u)
    BELOW[0] = sum(v < 0.5 for v in PAST[-8:])
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
