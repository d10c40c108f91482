"""SHA-256 over a drawn key and a counter is a stream of uniforms."""

import hashlib

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    key = rng.bytes(32)

    def uniform(n):
        digest = hashlib.sha256(key + n.to_bytes(4, "big")).digest()
        return int.from_bytes(digest[:7], "big") / 2**56

    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if uniform(2 * i) * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:i], int(np.searchsorted(cdf[:-1], uniform(2 * i + 1), side="right"))]
