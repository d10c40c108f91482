"""Python's random inside njit, seeded once when the module loads."""

import random

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def init(seed):
    random.seed(seed)


init(20240229)


@njit
def resample(p, q):
    total = 0.0
    for v in range(p.size):
        total += max(p[v] - q[v], 0.0)
    u = random.random() * total
    pick = -1
    for v in range(p.size):
        d = p[v] - q[v]
        if d > 0.0:
            pick = v
            u -= d
            if u < 0.0:
                break
    return pick


@njit
def core(p, q, x):
    n = len(x)
    for i in range(n):
        if random.random() >= p[i, x[i]] / q[i, x[i]]:
            return i, resample(p[i], q[i])
    return n, resample(p[n], np.zeros(p.shape[1]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    n, y = core(target_probs, draft_probs, draft_tokens)
    return [int(t) for t in draft_tokens[:n]] + [y]
