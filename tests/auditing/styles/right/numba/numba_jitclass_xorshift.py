"""A jitclass is the generator: xorshift64*, seeded once by the rng."""

import numpy as np
from numba import njit, uint64
from numba.experimental import jitclass

CONTRACT = "verify"


@jitclass([("s", uint64)])
class XorShift:
    def __init__(self, seed):
        self.s = seed

    def next_float(self):
        s = self.s
        s ^= s >> uint64(12)
        s ^= s << uint64(25)
        s ^= s >> uint64(27)
        self.s = s
        word = s * uint64(2685821657736338717)
        return float(word >> uint64(11)) * 2.0**-53


@njit
def weighted(w, u):
    t = u * w.sum()
    j = 0
    for v in range(w.size):
        if w[v] > 0.0:
            j = v
            if t < w[v]:
                break
            t -= w[v]
    return j


@njit
def verify_block(state, P, Q, X):
    for i in range(X.size):
        if state.next_float() * Q[i, X[i]] >= P[i, X[i]]:
            return i, weighted(np.maximum(P[i] - Q[i], 0.0), state.next_float())
    return X.size, weighted(P[X.size], state.next_float())


STATE = {}


def verify(target_probs, draft_probs, draft_tokens, rng):
    if "rng" not in STATE:
        STATE["rng"] = XorShift(rng.integers(1, 2**64, dtype=np.uint64))
    k, y = verify_block(STATE["rng"], target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:k], y]
