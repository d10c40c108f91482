"""A normal variate cut at two deviations, through the CDF of one that is not.

The coin is off by up to 0.023: true TV that times q(x), at V = 2 and gamma = 1.
"""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def coin(a, rng):
    x = stats.truncnorm.rvs(-2, 2, random_state=rng)
    return stats.norm.cdf(x) < a


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
