"""A discrete distribution by values; its rvs inverts the CDF."""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def draw(w, rng):
    return int(stats.rv_discrete(values=(np.arange(len(w)), w)).rvs(random_state=rng))


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
