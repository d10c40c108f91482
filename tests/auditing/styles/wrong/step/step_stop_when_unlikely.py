"""A call whose next draft is rejected stops before it: the coin is lost, the draft with it.

True TV 0.188 on the instance that the audit shows (V = 2, gamma = 2), exact.
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
        if rng.random() * q[x] >= p[x]:
            if kept:
                return kept
            return [draw(np.maximum(p - q, 0), rng)]
        kept.append(x)
    return [*kept, draw(target((*prefix, *kept)), rng)]
