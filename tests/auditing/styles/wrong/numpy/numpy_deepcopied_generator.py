"""The residual is drawn from a copy made before the coins: its uniform is the first coin.

True TV about 0.07 by Monte Carlo (V = 4, gamma = 2, p = 2e-261).
"""

import copy

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    later = copy.deepcopy(rng)
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] >= p[x]:
            residual = np.maximum(p - q, 0)
            cdf = np.cumsum(residual / residual.sum())
            token = np.searchsorted(cdf[:-1], later.random(), side="right")
            return [*draft_tokens[:i], int(token)]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
