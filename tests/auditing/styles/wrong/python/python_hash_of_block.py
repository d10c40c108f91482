"""The coins are digests of the block: fixed for each block, and nothing is drawn.

True TV 0.5 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import hashlib

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        digest = hashlib.blake2b(bytes(draft_tokens.astype(np.uint8)) + bytes([i])).digest()
        if int.from_bytes(digest[:7], "big") / 2**56 * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
