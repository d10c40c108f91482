"""A draft that is the target's argmax is kept without a coin, to save draws."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def choose(w):
    best, arg = -1.0, 0
    for v in range(w.size):
        if w[v] > 0.0:
            s = w[v] / np.random.exponential(1.0)
            if s > best:
                best, arg = s, v
    return arg


@njit
def keeps(p, q, x):
    if x == np.argmax(p):
        return True
    return np.random.random() * q[x] < p[x]


@njit
def run(seed, P, Q, X):
    np.random.seed(seed)
    for i in range(X.size):
        if not keeps(P[i], Q[i], X[i]):
            return i, choose(P[i] - Q[i])
    return X.size, choose(P[X.size])


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
