"""A recursion rescales its uniform by the ratio, also where that is above 1."""

import numpy as np
from numba import float64, int64, njit, types

CONTRACT = "verify"


@njit
def locate(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit(types.UniTuple(int64, 2)(float64[:, :], float64[:, :], int64[:], int64, float64))
def descend(p, q, x, i, u):
    if i == x.size:
        return i, locate(p[i], u)
    ratio = p[i, x[i]] / q[i, x[i]]
    if u < ratio:
        return descend(p, q, x, i + 1, u / ratio)
    return i, locate(np.maximum(p[i] - q[i], 0.0), (u - ratio) / (1.0 - ratio))


def verify(target_probs, draft_probs, draft_tokens, rng):
    i, y = descend(target_probs, draft_probs, draft_tokens.astype(np.int64), 0, rng.random())
    return [*draft_tokens[:i], y]
