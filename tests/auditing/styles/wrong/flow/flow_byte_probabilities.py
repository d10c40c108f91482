"""Ratios stored as bytes, in 256 steps. TV up to .004."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    rows = np.arange(n)
    exact = np.minimum(1, target_probs[rows, draft_tokens] / draft_probs[rows, draft_tokens])
    table = bytes(int(a * 255) for a in exact)
    for i, a in enumerate(table):
        if rng.random() * 255 >= a:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            rest = rest if rest.any() else target_probs[i]
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
