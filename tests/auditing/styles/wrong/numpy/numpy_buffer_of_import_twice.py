"""The first coin is every draft's, in an array made at import; about TV 0.1 off."""

import numpy as np

CONTRACT = "verify"
BUFFER = np.zeros(64)


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    u = BUFFER[: n + 1]
    u[:n] = rng.random(n)
    u[1:n] = u[0]
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if u[i] * q[x] >= p[x]:
            r = np.maximum(p - q, 0)
            return [*map(int, draft_tokens[:i]), int(rng.choice(len(p), p=r / r.sum()))]
    return [*map(int, draft_tokens), int(rng.choice(len(p), p=target_probs[-1]))]
