"""Two generators seeded with a drawn word and with the word after it."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    word = int(rng.integers(2**62))
    near, far = np.random.default_rng(word), np.random.default_rng(word + 1)
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if near.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], far.random(), side="right"))]
