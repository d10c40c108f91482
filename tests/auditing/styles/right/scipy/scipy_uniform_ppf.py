"""The exponential's quantile function of a uniform, in a race."""

import numpy as np
from scipy import stats

CONTRACT = "verify"


def draw(w, rng):
    arrivals = stats.expon.ppf(rng.random(len(w)))
    with np.errstate(divide="ignore"):
        return int(np.argmin(arrivals / w))


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
