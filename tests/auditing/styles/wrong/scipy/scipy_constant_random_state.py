"""Residuals by scipy.stats with random_state=0.

True TV about 0.3 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def draw(w, rng):
    return int(stats.multinomial.rvs(1, w, random_state=0).argmax())


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
