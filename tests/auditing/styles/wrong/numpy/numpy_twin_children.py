"""Two children are made of one spawn key: coin and residual are the same number.

True TV about 0.05 by Monte Carlo (V = 3, gamma = 2, p = 2e-19).
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    word = int(rng.integers(2**63))
    one, two = (np.random.default_rng(np.random.SeedSequence(word, spawn_key=(0,))) for _ in "ab")
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if one.random() * q[x] >= p[x]:
            cdf = np.cumsum(np.maximum(p - q, 0))
            token = np.searchsorted(cdf[:-1], two.random() * cdf[-1], side="right")
            return [*draft_tokens[:i], int(token)]
        two.random()
    return [*draft_tokens, int(one.choice(len(target_probs[-1]), p=target_probs[-1]))]
