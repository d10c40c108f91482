"""Left-skewed Gumbel noise: the argmax is not a draw from the weights.

True TV about 0.03 by Monte Carlo (V = 4, gamma = 2, p = 6e-04).
"""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def draw(w, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(w) + stats.gumbel_l.rvs(size=len(w), random_state=rng)))


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
