"""One row of Gumbel noise for coin and residual: a rejected token has none, no slot serves twice"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        noise = rng.gumbel(size=len(p))
        if np.exp(-np.exp(-noise[x])) * q[x] >= p[x]:
            with np.errstate(divide="ignore"):
                token = np.argmax(np.log(np.maximum(p - q, 0)) + noise)
            return [*draft_tokens[:i], int(token)]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
