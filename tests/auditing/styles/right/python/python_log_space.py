"""Everything in log space: -E against log p - log q, Gumbel-free race in logs."""

import math

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return a > 0 and -rng.standard_exponential() < math.log(a)


def draw(w, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmin(np.log(rng.standard_exponential(len(w))) - np.log(w)))


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
