"""np.random.multinomial of sorted weights, so that rounding falls to the largest."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def one_of(weights):
    order = np.argsort(weights)
    share = weights[order] / weights.sum()
    counts = np.random.multinomial(1, share)
    return order[np.argmax(counts)]


@njit
def run(seed, P, Q, X):
    np.random.seed(seed)
    gamma = X.size
    i = 0
    while i < gamma and np.random.random() * Q[i, X[i]] < P[i, X[i]]:
        i += 1
    w = P[i].copy()
    if i < gamma:
        w -= Q[i]
        w[w < 0] = 0
    return i, one_of(w)


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
