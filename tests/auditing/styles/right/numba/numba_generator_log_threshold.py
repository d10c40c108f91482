"""A Generator goes into njit: a standard exponential is compared with the log ratio."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def keep(gen, p, q):
    if p >= q:
        return True
    if p == 0.0:
        return False
    return gen.standard_exponential() > np.log(q) - np.log(p)


@njit
def draw(gen, w):
    best, arg = np.inf, -1
    for v in range(w.size):
        if w[v] > 0.0:
            t = gen.exponential(1.0 / w[v])
            if t < best:
                best, arg = t, v
    return arg


@njit
def walk(gen, p, q, x):
    for i in range(x.size):
        if not keep(gen, p[i, x[i]], q[i, x[i]]):
            return i, draw(gen, p[i] - q[i])
    return x.size, draw(gen, p[x.size])


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = walk(rng, target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:i].tolist(), y]
