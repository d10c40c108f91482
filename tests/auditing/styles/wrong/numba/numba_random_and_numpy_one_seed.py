"""Coins of np.random and a token of random: seeded alike, the two give the same numbers."""

import random

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def seed_all(s):
    np.random.seed(s)
    random.seed(s)


@njit
def pick(w):
    u = random.random() * w.sum()
    v = 0
    while v < w.size - 1 and u >= w[v]:
        u -= w[v]
        v += 1
    return v


@njit
def run(s, P, Q, X):
    seed_all(s)
    n = X.size
    u = np.random.random(n)
    for i in range(n):
        if u[i] * Q[i, X[i]] >= P[i, X[i]]:
            return i, pick(np.maximum(P[i] - Q[i], 0.0))
    return n, pick(P[n])


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = run(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i], y]
