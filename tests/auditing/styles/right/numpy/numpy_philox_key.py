"""A counter-based stream with a drawn key; the slot of the token is the counter."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = rng.integers(2**64, size=2, dtype=np.uint64)

    def uniform(slot):
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, slot])).random()

    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if uniform(i) * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], uniform(1000 + i), side="right"))]
