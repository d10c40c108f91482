"""A Lehmer generator in a jitclass, seeded by 16 bits: its first coin is at most .513."""

import numpy as np
from numba import int64, njit
from numba.experimental import jitclass

CONTRACT = "verify"


@jitclass([("x", int64)])
class Lehmer:
    def __init__(self, seed):
        self.x = seed

    def random(self):
        self.x = self.x * 16807 % 2147483647
        return self.x / 2147483647


@njit
def run(seed, P, Q, X):
    g = Lehmer(seed)
    n = X.size
    k = n
    for i in range(n):
        if g.random() * Q[i, X[i]] >= P[i, X[i]]:
            k = i
            break
    w = P[k].copy()
    if k < n:
        w = np.maximum(w - Q[k], 0.0)
    c = np.cumsum(w)
    return k, min(np.searchsorted(c, g.random() * c[-1], side="right"), c.size - 1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    k, y = run(int(rng.integers(1, 2**16)), target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:k], y]
