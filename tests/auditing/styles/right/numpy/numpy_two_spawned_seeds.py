"""Two children of one drawn seed sequence: different spawn keys, independent streams."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    entropy = np.random.SeedSequence(int(rng.integers(2**63)))
    near, far = map(np.random.default_rng, entropy.spawn(2))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if near.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], far.random(), side="right"))]
