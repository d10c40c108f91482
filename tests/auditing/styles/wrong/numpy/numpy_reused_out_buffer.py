"""A coin is kept by reference to the buffer that the next draw overwrites.

True TV about 0.06 by Monte Carlo (V = 3, gamma = 2, p = 3e-41).
"""

import numpy as np

CONTRACT = "verify"


BUFFER = np.empty(1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = [rng.random(out=BUFFER) for _ in draft_tokens]
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coins[i][0] * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
