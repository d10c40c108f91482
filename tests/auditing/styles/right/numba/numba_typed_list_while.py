"""Tokens gather in a typed list until a while loop ends early."""

import numpy as np
from numba import njit, types
from numba.typed import List

CONTRACT = "verify"


@njit
def bernoulli(p):
    return np.random.random() < p


@njit
def categorical(w):
    # sticks: each token takes its share of what is left
    left = w.sum()
    last = -1
    for v in range(w.size):
        if w[v] <= 0.0:
            continue
        last = v
        if bernoulli(w[v] / left):
            return v
        left -= w[v]
        if left <= 0.0:
            break
    return last


@njit
def emit(seed, P, Q, X):
    np.random.seed(seed)
    emitted = List.empty_list(types.int64)
    alive = True
    while alive and len(emitted) < X.size:
        i = len(emitted)
        if bernoulli(P[i, X[i]] / Q[i, X[i]]):
            emitted.append(X[i])
        else:
            alive = False
            emitted.append(categorical(np.maximum(P[i] - Q[i], 0)))
    if alive:
        emitted.append(categorical(P[X.size]))
    return emitted


def verify(target_probs, draft_probs, draft_tokens, rng):
    return list(emit(rng.integers(2**32), target_probs, draft_probs, draft_tokens))
