"""A scratch row for residuals is never cleared: entries of earlier rows stay in it."""

import numpy as np
from numba import njit

CONTRACT = "verify"

SCRATCH = np.zeros(256)


@njit
def residual(p, q, w):
    for v in range(p.size):
        d = p[v] - q[v]
        if d > 0.0:
            w[v] = d


@njit
def choose(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit
def run(P, Q, X, gen, scratch):
    w = scratch[: P.shape[1]]
    for i in range(X.size):
        if gen.random() * Q[i, X[i]] >= P[i, X[i]]:
            residual(P[i], Q[i], w)
            return i, choose(w, gen.random())
    return X.size, choose(P[X.size], gen.random())


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(target_probs, draft_probs, draft_tokens, rng, SCRATCH)
    return [*draft_tokens[:i], y]
