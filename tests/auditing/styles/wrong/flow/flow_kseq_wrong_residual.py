"""K-SEQ whose residual forgets the factor of the acceptance probability. TV about .03."""

import numpy as np

CONTRACT = "step"
K, RHO = 2, 1.5


def step(prefix, target, draft, gamma, rng):
    p, q = target(prefix), draft(prefix)
    for _ in range(K):
        x = int(rng.choice(len(q), p=q))
        if rng.random() * RHO * q[x] < p[x]:
            return [x]
    rest = np.maximum(p - q, 0)
    rest = rest if rest.any() else p
    return [int(rng.choice(len(p), p=rest / rest.sum()))]
