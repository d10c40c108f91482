"""The bonus token is drawn from the draft.

True TV 0.25 on the instance that the audit shows (V = 2, gamma = 1), exact.
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
            return [*kept, draw(np.maximum(p - q, 0), rng)]
        kept.append(x)
    return [*kept, draw(draft((*prefix, *kept)), rng)]
