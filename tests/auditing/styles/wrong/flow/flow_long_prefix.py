"""Lossy at prefixes of more than 8 tokens only: the residual is the target there. TV about .1."""

import numpy as np

CONTRACT = "step"
BEYOND = "prefix above 8"


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma):
        here = (*prefix, *out)
        p, q = target(here), draft(here)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] >= p[x]:
            rest = p if len(prefix) > 8 else np.maximum(p - q, 0)
            return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
        out.append(x)
    p = target((*prefix, *out))
    return [*out, int(rng.choice(len(p), p=p))]
