"""Block verification with token verification's residual: the weight is left out."""

import numpy as np
from numba import njit

CONTRACT = "verify"
BEYOND = "blocks of two, four tokens"


@njit
def choose(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit
def block(p, q, x, u):
    n = len(x)
    w = 1.0
    tau = 0
    for i in range(n):
        w = min(1.0, w * p[i, x[i]] / q[i, x[i]])
        h = w
        if i + 1 < n:
            s = np.maximum(w * p[i + 1] - q[i + 1], 0.0).sum()
            h = s / (s + 1.0 - w) if s + 1.0 - w > 0.0 else 1.0
        if u[i] < h:
            tau = i + 1
    r = p[tau].copy()
    if tau < n:
        r = np.maximum(p[tau] - q[tau], 0.0)
        if r.sum() == 0.0:
            r = p[tau]
    return tau, choose(r, u[n])


def verify(target_probs, draft_probs, draft_tokens, rng):
    tau, y = block(target_probs, draft_probs, draft_tokens, rng.random(len(draft_tokens) + 1))
    return [*draft_tokens[:tau], y]
