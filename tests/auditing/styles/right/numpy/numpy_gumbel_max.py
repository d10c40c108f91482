"""Gumbel noise plus log weights, and a coin by a logistic variate against the logit."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.logistic() < np.log(a) - np.log1p(-a) if a > 0 else False


def draw(w, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(w) + rng.gumbel(size=len(w))))


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
