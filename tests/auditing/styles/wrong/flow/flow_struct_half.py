"""Ratios go through struct's half-precision format after a bonus of 1%. TV up to .01."""

import struct

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        a = min(1.0, 1.01 * target_probs[i, token] / draft_probs[i, token])
        (a,) = struct.unpack("e", struct.pack("e", a))
        if rng.random() >= a:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
