"""The last token comes from a jumped stream; the parent moves on by as much in every call."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    far = np.random.Generator(rng.bit_generator.jumped())
    coins = rng.random(len(draft_tokens))  # At least as many as `far` gives: no overlap.
    ratios = [p[x] / q[x] for p, q, x in zip(target_probs, draft_probs, draft_tokens, strict=False)]
    stop = [*(coins >= ratios), True].index(True)
    w = np.array(target_probs[stop])
    if stop < len(draft_tokens):
        w = np.maximum(w - draft_probs[stop], 0)
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:stop], int(np.searchsorted(cdf[:-1], far.random(), side="right"))]
