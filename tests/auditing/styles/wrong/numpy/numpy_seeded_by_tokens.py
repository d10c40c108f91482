"""The coins are seeded with the drafted tokens: one decision for each block, for ever.

True TV about 0.2 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    own = np.random.default_rng([int(x) for x in draft_tokens])
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if own.random() * q[x] >= p[x]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=residual / residual.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
