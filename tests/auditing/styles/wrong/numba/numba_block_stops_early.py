"""Block verification that stops at the first failed test instead of keeping the last passed one."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def rest(w, p, q):
    return np.maximum(w * p - q, 0.0)


@njit
def choose(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit
def block(p, q, x):
    n = len(x)
    w = 1.0
    for i in range(n):
        nxt = min(1.0, w * p[i, x[i]] / q[i, x[i]])
        if i == n - 1:
            h = nxt
        else:
            s = rest(nxt, p[i + 1], q[i + 1]).sum()
            d = s + 1.0 - nxt
            h = s / d if d > 0.0 else 1.0
        if np.random.random() >= h:
            r = rest(w, p[i], q[i])
            return i, choose(r if r.sum() > 0.0 else p[i], np.random.random())
        w = nxt
    return n, choose(p[n], np.random.random())


def verify(target_probs, draft_probs, draft_tokens, rng):
    k, y = block(target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:k], y]
