"""A Random seeded with the number of kept tokens.

True TV about 0.5 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import random

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if random.Random(i).random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], *random.choices(range(len(w)), w.tolist())]
    return [*draft_tokens, *random.choices(range(len(target_probs[-1])), target_probs[-1].tolist())]
