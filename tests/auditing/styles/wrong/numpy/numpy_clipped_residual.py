"""The residual is clipped at 1%, not at 0.

True TV 0.0099 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] >= p[x]:
            w = np.clip(p - q, 0.01, None)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
