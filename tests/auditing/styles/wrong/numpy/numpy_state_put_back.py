"""The state is read before the coins and put back for the last token, which sees the first coin.

True TV about 0.09 by Monte Carlo (V = 4, gamma = 2, p = 5e-157).
"""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    state = rng.bit_generator.state
    coins = rng.random(len(draft_tokens))
    ratios = [p[x] / q[x] for p, q, x in zip(target_probs, draft_probs, draft_tokens, strict=False)]
    stop = [*(coins >= ratios), True].index(True)
    w = np.array(target_probs[stop])
    if stop < len(draft_tokens):
        w = np.maximum(w - draft_probs[stop], 0)
    rng.bit_generator.state = state
    cdf = np.cumsum(w / w.sum())
    return [*draft_tokens[:stop], int(np.searchsorted(cdf[:-1], rng.random(), side="right"))]
