"""The residual as a masked array, whose masked entries are no tokens."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    positive = np.ma.masked_less_equal(weights, 0.0).filled(0.0)
    return int(rng.choice(len(positive), p=positive / positive.sum()))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
