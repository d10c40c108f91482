"""Each call's coins come from a generator that is seeded with 63 bits of the given one."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    own = np.random.default_rng(rng.integers(2**63))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if own.random() * q[x] >= p[x]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(own.choice(len(p), p=residual / residual.sum()))]
    return [*draft_tokens, int(own.choice(len(target_probs[-1]), p=target_probs[-1]))]
