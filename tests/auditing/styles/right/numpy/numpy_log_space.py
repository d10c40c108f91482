"""Weights in log space, normalised by logaddexp, and Gumbel noise; the winner by argpartition."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    with np.errstate(divide="ignore"):
        scores = np.log(weights)
    scores = scores - np.logaddexp.reduce(scores) + rng.gumbel(size=len(weights))
    return int(np.argpartition(-scores, 0)[0])


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
