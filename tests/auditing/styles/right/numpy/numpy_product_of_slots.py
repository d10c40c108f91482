"""Block verification would compare products; here the product of coins is only ever logged."""

import numpy as np

CONTRACT = "verify"


LOG = []


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = rng.random(len(draft_tokens))
    LOG[:] = [float(np.prod(coins))]
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
