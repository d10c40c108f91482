"""Rows are turned to float32 before anything else: off by rounding alone."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p32, q32 = target_probs.astype(np.float32), draft_probs.astype(np.float32)
    for i, x in enumerate(draft_tokens):
        p, q = p32[i], q32[i]
        if rng.random(dtype=np.float32) * q[x] >= p[x]:
            w = np.maximum(p - q, 0).astype(np.float64)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=w / w.sum()))]
    w = p32[-1].astype(np.float64)
    return [*draft_tokens, int(rng.choice(len(w), p=w / w.sum()))]
