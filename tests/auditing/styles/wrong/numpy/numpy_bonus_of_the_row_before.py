"""When all are kept the bonus is drawn from the row before the last.

True TV 1 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-2]), p=target_probs[-2]))]
