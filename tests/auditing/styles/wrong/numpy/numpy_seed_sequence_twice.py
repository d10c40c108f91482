"""Two generators are made of one fresh seed sequence: they draw the same numbers.

True TV about 0.05 by Monte Carlo (V = 3, gamma = 2, p = 7e-14).
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    entropy = np.random.SeedSequence()
    near, far = np.random.default_rng(entropy), np.random.default_rng(entropy)
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if near.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            cdf = np.cumsum(w / w.sum())
            token = np.searchsorted(cdf[:-1], far.random(), side="right")
            return [*draft_tokens[:i], int(token)]
        far.random()
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
