"""A drafted token 0 is taken for padding and judged by the bonus rule.

True TV 0.25 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if x == 0:
            return [*draft_tokens[:i], int(rng.choice(len(p), p=p))]
        if rng.random() * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
