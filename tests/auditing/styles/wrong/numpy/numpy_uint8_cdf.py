"""The CDF is kept in 256ths: its end wraps to 0, and steps are 1/256.

True TV of the last token up to 1/256 for each cut that is rounded down.
"""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    cdf = (np.cumsum(w) * 256).astype(np.uint16)
    return int(np.searchsorted(cdf[:-1], rng.integers(256), side="right"))


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
