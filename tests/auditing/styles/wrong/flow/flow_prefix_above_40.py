"""Lossy at prefixes of more than 40 tokens only: the bonus is the draft's. TV about .1 there."""

import numpy as np

CONTRACT = "step"
BEYOND = "prefix above 40"


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma):
        here = (*prefix, *out)
        p, q = target(here), draft(here)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] >= p[x]:
            rest = np.maximum(p - q, 0)
            return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
        out.append(x)
    p = (draft if len(prefix) > 40 else target)((*prefix, *out))
    return [*out, int(rng.choice(len(p), p=p))]
