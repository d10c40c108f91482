"""K-SEQ with three drafts of one token; the residual is drawn by retries from p."""

import numpy as np

CONTRACT = "step"
K = 3


def ratio(p, q):
    low, high = 1.0, float(K)
    for _ in range(60):
        mid = (low + high) / 2
        beta = np.minimum(q, p / mid).sum()
        low, high = (mid, high) if 1 - (1 - beta) ** K > mid * beta else (low, mid)
    return high


def step(prefix, target, draft, gamma, rng):
    p, q = target(prefix), draft(prefix)
    rho = ratio(p, q)
    for _ in range(K):
        x = int(rng.choice(len(q), p=q))
        if rng.random() * rho * q[x] < p[x]:
            return [x]
    beta = np.minimum(q, p / rho).sum()
    scale = (1 - (1 - beta) ** K) / beta if beta > 0 else 0.0
    rest = np.maximum(p - np.minimum(q, p / rho) * scale, 0)
    while True:
        x = int(rng.choice(len(p), p=p))
        if rng.random() * p[x] < rest[x]:
            return [x]
