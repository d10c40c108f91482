"""A ring of 256 uniforms drawn once, read round and round. TV about .05, by chance of the table."""

import numpy as np

CONTRACT = "verify"
RING = np.random.default_rng().random(256)
AT = [0]


def coin():
    AT[0] = (AT[0] + 1) % 256
    return RING[AT[0]]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if coin() * draft_probs[i, token] >= target_probs[i, token]:
            cdf = np.cumsum(np.maximum(target_probs[i] - draft_probs[i], 0))
            return [*draft_tokens[:i], int(np.searchsorted(cdf, coin() * cdf[-1], "right"))]
    cdf = np.cumsum(target_probs[-1])
    return [*draft_tokens, int(np.searchsorted(cdf, coin() * cdf[-1], "right"))]
