"""A recursive njit function makes one uniform last for the whole block by rescaling it."""

import numpy as np
from numba import float64, int64, njit, types

CONTRACT = "verify"


@njit
def locate(w, u):
    c = np.cumsum(w)
    c /= c[-1]
    for v in range(c.size):
        if u < c[v]:
            return v
    return np.flatnonzero(w)[-1]


@njit(types.UniTuple(int64, 2)(float64[:, ::1], float64[:, ::1], int64[::1], int64, float64))
def descend(p, q, x, i, u):
    if i == x.size:
        return i, locate(p[i], u)
    a = min(1.0, p[i, x[i]] / q[i, x[i]])
    if u < a:
        return descend(p, q, x, i + 1, u / a)
    return i, locate(np.maximum(p[i] - q[i], 0.0), (u - a) / (1.0 - a))


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = np.ascontiguousarray(target_probs)
    q = np.ascontiguousarray(draft_probs)
    x = np.ascontiguousarray(draft_tokens, dtype=np.int64)
    i, y = descend(p, q, x, 0, rng.random())
    return [*x[:i].tolist(), y]
