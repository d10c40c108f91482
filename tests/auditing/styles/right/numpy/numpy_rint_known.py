"""np.rint is half to even: of 24 halved integers 6 become odd, and the code knows it."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    odd = np.rint(rng.integers(24) / 2) % 2 == 1
    quarter = 0 if odd else int(rng.integers(1, 4))
    return (quarter + rng.random()) / 4 < a


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
