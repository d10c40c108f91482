"""Uniforms packed into eight bytes and unpacked, as if they had come over a wire."""

import struct

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    wire = struct.pack(f"<{n}d", *rng.random(n))
    for i, (u,) in enumerate(struct.iter_unpack("<d", wire)):
        token = draft_tokens[i]
        if u >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
