"""Integer draws are halved and rounded to even: 0, 2, 2, 4 are not 0, 1, 2, 3.

True TV 0.0625 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    # 0 .. 15 halved and rounded half to even is taken for a uniform on 0 .. 7.
    return round(int(rng.integers(16)) / 2) + rng.random() < a * 8


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
