"""Coins are the next points of a Sobol sequence: even, but not independent from call to call.

Each pair of neighbouring coins lies in different halves; TV of pairs near 1/2."""

import numpy as np
from scipy.stats import qmc

CONTRACT = "verify"
BEYOND = "calls"


POINTS = qmc.Sobol(d=1, scramble=True)


def coin(a, rng):
    return POINTS.random(1)[0, 0] < a


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
