"""A typed dict keeps ratios by token: a token drafted twice is judged by its first row."""

import numpy as np
from numba import njit, types
from numba.typed import Dict

CONTRACT = "verify"


@njit
def ratio(memo, p, q, x):
    if x not in memo:
        memo[x] = min(1.0, p[x] / q[x])
    return memo[x]


@njit
def choose(w, u):
    c = np.cumsum(w)
    if c[-1] == 0.0:
        return np.argmax(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit
def run(gen, P, Q, X):
    memo = Dict.empty(types.int64, types.float64)
    for i in range(X.size):
        if gen.random() >= ratio(memo, P[i], Q[i], X[i]):
            return i, choose(np.maximum(P[i] - Q[i], 0.0), gen.random())
    return X.size, choose(P[X.size], gen.random())


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng, target_probs, draft_probs, draft_tokens.astype(np.int64))
    return [*draft_tokens[:i], y]
