"""Works on a deep copy of rng for the coins, and on rng for the residual: equal uniforms. TV .1."""

import copy

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = copy.deepcopy(rng)
    for i, token in enumerate(draft_tokens):
        v = rng.random()
        if coins.random() >= target_probs[i, token] / draft_probs[i, token]:
            cdf = np.cumsum(np.maximum(target_probs[i] - draft_probs[i], 0))
            return [*draft_tokens[:i], int(np.searchsorted(cdf, v * cdf[-1], "right"))]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
