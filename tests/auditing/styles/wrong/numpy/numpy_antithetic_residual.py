"""The residual is drawn with 1 - u of the uniform that has rejected.

True TV 0.167 on the instance that the audit shows (V = 3, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q, u = target_probs[i], draft_probs[i], rng.random()
        if u * q[x] >= p[x]:
            cdf = np.cumsum(np.maximum(p - q, 0))
            token = np.searchsorted(cdf[:-1], (1 - u) * cdf[-1], side="right")
            return [*draft_tokens[:i], int(token)]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
