"""From the fifth slot on, drafted tokens are accepted unseen.

True TV about 0.09 by Monte Carlo (V = 3, gamma = 5, p = 1e-182).
"""

import numpy as np

CONTRACT = "verify"
BEYOND = "gamma"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if i < 4 and rng.random() * q[x] >= p[x]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=residual / residual.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
