"""Two independent drafts for one token, judged by recursive rejection."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    for x in rng.choice(len(q), size=2, p=q):
        if rng.random() * q[x] < p[x]:
            return [int(x), draw(target((*prefix, int(x))), rng)]
        p = np.maximum(p - q, 0)
        p = p / p.sum()
    return [draw(p, rng)]
