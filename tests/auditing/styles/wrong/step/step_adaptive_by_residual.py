"""The draft length depends on the coin's margin: a narrow accept is taken back and drawn again.

True TV 0.0188 on the instance that the audit shows (V = 2, gamma = 2), exact.
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    prefix, kept = tuple(prefix), []
    for _ in range(gamma):
        here = (*prefix, *kept)
        p, q = target(here), draft(here)
        x = draw(q, rng)
        u = rng.random() * q[x]
        if p[x] * 0.9 < u < p[x] and kept:
            return kept
        if u >= p[x]:
            return [*kept, draw(np.maximum(p - q, 0), rng)]
        kept.append(x)
    return [*kept, draw(target((*prefix, *kept)), rng)]
