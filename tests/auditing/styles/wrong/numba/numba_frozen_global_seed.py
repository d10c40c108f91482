"""njit freezes a global seed at its first value: each later call draws the same coins."""

import numpy as np
from numba import njit

CONTRACT = "verify"

SEED = 0


@njit
def pick(w):
    c = np.cumsum(w)
    return min(np.searchsorted(c, np.random.random() * c[-1], side="right"), c.size - 1)


@njit
def run(P, Q, X):
    np.random.seed(SEED)
    for i in range(X.size):
        if np.random.random() * Q[i, X[i]] >= P[i, X[i]]:
            return i, pick(np.maximum(P[i] - Q[i], 0.0))
    return X.size, pick(P[X.size])


def verify(target_probs, draft_probs, draft_tokens, rng):
    global SEED
    SEED = int(rng.integers(2**32))
    i, y = run(target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
