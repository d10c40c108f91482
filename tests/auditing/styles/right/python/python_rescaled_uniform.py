"""One uniform for the whole call: after each comparison it is stretched back to [0, 1)."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    u = rng.random()
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        a = min(p[x] / q[x], 1.0)
        if u >= a:
            u, w = (u - a) / (1 - a), np.maximum(p - q, 0)
            break
        u /= a
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int((cdf[:-1] <= u).sum())]
