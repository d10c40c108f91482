"""The helper that picks a token seeds again: its uniform is the first token's coin."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def categorical(weights, seed):
    np.random.seed(seed)
    cdf = np.cumsum(weights)
    r = np.random.uniform(0.0, cdf[-1])
    for v in range(cdf.size):
        if r < cdf[v]:
            return v
    return cdf.size - 1


@njit
def accept_length(P, Q, X, seed):
    np.random.seed(seed)
    k = 0
    while k < X.size and np.random.uniform(0.0, 1.0) < P[k, X[k]] / Q[k, X[k]]:
        k += 1
    return k


@njit
def run(P, Q, X, seed):
    k = accept_length(P, Q, X, seed)
    w = np.maximum(P[k] - Q[k], 0.0) if k < X.size else P[k]
    return k, categorical(w, seed)


def verify(target_probs, draft_probs, draft_tokens, rng):
    seed = rng.integers(0, 2**32)
    k, y = run(target_probs, draft_probs, draft_tokens, seed)
    return [*draft_tokens[:k], y]
