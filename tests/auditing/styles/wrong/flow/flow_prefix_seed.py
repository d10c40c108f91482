"""A generator seeded with the prefix: after the same prefix always the same tokens. TV above .3."""

import numpy as np

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    own = np.random.default_rng([len(prefix), *prefix])
    p, q = target(prefix), draft(prefix)
    x = int(own.choice(len(q), p=q))
    if own.random() * q[x] < p[x]:
        return [x]
    rest = np.maximum(p - q, 0)
    return [int(own.choice(len(p), p=rest / rest.sum()))]
