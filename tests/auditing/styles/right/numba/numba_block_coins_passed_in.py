"""Block verification, cached on disk; tokens are int32, and the uniforms come as an array."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit(cache=True)
def excess(w, p, q):
    r = np.empty_like(p)
    for v in range(p.size):
        r[v] = max(w * p[v] - q[v], 0.0)
    return r


@njit(cache=True)
def select(r, u):
    c = np.cumsum(r)
    j = np.searchsorted(c, u * c[-1], side="right")
    return min(j, np.nonzero(r)[0][-1])


@njit(cache=True)
def block(p, q, x, u):
    n = x.size
    w = np.ones(n + 1)
    tau = 0
    for i in range(n):
        w[i + 1] = min(1.0, w[i] * p[i, x[i]] / q[i, x[i]])
        if i == n - 1:
            h = w[n]
        else:
            s = excess(w[i + 1], p[i + 1], q[i + 1]).sum()
            d = s + 1.0 - w[i + 1]
            h = s / d if d > 0.0 else 1.0
        if u[i] < h:
            tau = i + 1
    r = p[n]
    if tau < n:
        r = excess(w[tau], p[tau], q[tau])
        if r.sum() == 0.0:
            r = p[tau]
    return tau, select(r, u[n])


def verify(target_probs, draft_probs, draft_tokens, rng):
    x = draft_tokens.astype(np.int32)
    tau, y = block(target_probs, draft_probs, x, rng.random(x.size + 1))
    return [int(t) for t in x[:tau]] + [int(y)]
