"""One point of a Latin hypercube has independent uniform coordinates."""

import numpy as np
from scipy.stats import qmc

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = qmc.LatinHypercube(d=len(draft_tokens) + 1, rng=rng).random(1)[0]
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], coins[-1], side="right"))]
