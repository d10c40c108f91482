"""A coin for each draft, in an array made at import."""

import numpy as np

CONTRACT = "verify"
BUFFER = np.zeros(64)


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    u = BUFFER[: n + 1]
    u[:n] = rng.random(n)
    u[n] = rng.random()
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if u[i] * q[x] >= p[x]:
            r = np.maximum(p - q, 0)
            return [*map(int, draft_tokens[:i]), int(rng.choice(len(p), p=r / r.sum()))]
    return [*map(int, draft_tokens), int(rng.choice(len(p), p=target_probs[-1]))]
