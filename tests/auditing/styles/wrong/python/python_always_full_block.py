"""After a rejection the block is filled up with draws from the rows of the drafted path.

True TV about 0.4 by Monte Carlo (V = 4, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    out = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            out.append(int(rng.choice(len(w), p=w / w.sum())))
        else:
            out.append(int(x))
    return [*out, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
