"""From the hundredth call on, the residual is the target's row.

True TV 0.25 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"
BEYOND = "calls"


CALLS = [0]


def verify(target_probs, draft_probs, draft_tokens, rng):
    CALLS[0] += 1
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] >= p[x]:
            w = p if CALLS[0] > 100 else np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
