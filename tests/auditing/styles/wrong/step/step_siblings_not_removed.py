"""Two drafts without replacement, judged as if they were independent.

True TV about .07 of 2 tokens by Monte Carlo (V = 3, p = 1e-102).
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    for x in rng.choice(len(q), size=min(2, int((q > 0).sum())), p=q, replace=False):
        if rng.random() * q[x] < p[x]:
            return [int(x)]
        p = np.maximum(p - q, 0)
        p = p / p.sum()
    return [draw(p, rng)]
