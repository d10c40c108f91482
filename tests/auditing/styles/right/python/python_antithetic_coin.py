"""Both u and 1 - u are used, for two slots of which one is ever looked at."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q, u = target_probs[i], draft_probs[i], rng.random()
        if 1 - u > p[x] / q[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    v = rng.random()
    v = 1 - v if i % 2 else v
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], v, side="right"))]
