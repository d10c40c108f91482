"""Tokens are appended to a bytearray, four bytes each, and read back as a memoryview of int32."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    out = bytearray()
    for i, token in enumerate(draft_tokens):
        if rng.random() * draft_probs[i, token] >= target_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            out += int(rng.choice(len(rest), p=rest / rest.sum())).to_bytes(4, "little")
            break
        out += int(token).to_bytes(4, "little")
    else:
        out += int(rng.choice(target_probs.shape[1], p=target_probs[-1])).to_bytes(4, "little")
    return memoryview(out).cast("i").tolist()
