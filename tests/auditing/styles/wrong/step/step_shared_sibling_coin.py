"""Two independent drafts are judged with one coin.

True TV about .02 of 2 tokens by Monte Carlo (V = 3, p = 2e-7).
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    u = rng.random()
    for x in rng.choice(len(q), size=2, p=q):
        if u * q[x] < p[x]:
            return [int(x)]
        p = np.maximum(p - q, 0)
        p = p / p.sum()
    return [draw(p, rng)]
