"""The second coin of a block is 1 - u of the first: uniform each, not independent.

True TV 0.25 on the instance that the audit shows (V = 2, gamma = 2), exact.
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    u = rng.random()
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if (u if i % 2 == 0 else 1 - u) * q[x] >= p[x]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=residual / residual.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
