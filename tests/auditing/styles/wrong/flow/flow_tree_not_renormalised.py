"""Siblings without replacement, but the second is judged by the first one's draft row. TV .05."""

import numpy as np

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    p, q = target(prefix), draft(prefix)
    tried = np.ones(len(q), dtype=bool)
    for _ in range(min(2, int((q > 0).sum()))):
        law = np.where(tried, q, 0.0)
        x = int(rng.choice(len(q), p=law / law.sum()))
        tried[x] = False
        if rng.random() * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        p = rest / rest.sum() if rest.any() else p
    return [int(rng.choice(len(p), p=p))]
