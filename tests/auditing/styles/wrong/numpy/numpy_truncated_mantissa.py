"""The ratio keeps 7 bits of mantissa, masked in uint32: bfloat16 by hand, cut off, not rounded.

True TV 0.00383 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    cut = np.array([a], dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return rng.random() < cut.view(np.float32)[0]


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


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
