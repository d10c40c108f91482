"""An inverse CDF as the first True of a comparison, over a masked array."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    weights = np.ma.masked_equal(w, 0.0)
    cdf = np.cumsum(weights.filled(0.0))
    cdf[-1] = max(cdf[-1], 1.0)
    return int(np.argmax(cdf > rng.random()))


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
