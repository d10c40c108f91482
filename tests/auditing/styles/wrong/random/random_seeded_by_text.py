"""The module is seeded with the block's text: the same block is decided the same way for ever.

True TV about 0.6 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import random

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    random.seed(str(draft_tokens.tolist()))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if random.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    return [*draft_tokens[:i], *random.choices(range(len(w)), w.tolist())]
