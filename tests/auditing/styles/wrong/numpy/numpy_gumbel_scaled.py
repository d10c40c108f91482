"""Gumbel noise of scale .9 on log weights: rows are sharpened. TV .006."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(weights) + 0.9 * rng.gumbel(size=len(weights))))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
