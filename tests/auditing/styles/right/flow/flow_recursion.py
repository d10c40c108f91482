"""Recursion down the block; the tail of the answer is built on the way back."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    if not len(draft_tokens):
        return [int(rng.choice(target_probs.shape[1], p=target_probs[0]))]
    p, q, x = target_probs[0], draft_probs[0], int(draft_tokens[0])
    if rng.random() * q[x] < p[x]:
        return [x, *verify(target_probs[1:], draft_probs[1:], draft_tokens[1:], rng)]
    rest = np.maximum(p - q, 0)
    return [int(rng.choice(len(p), p=rest / rest.sum()))]
