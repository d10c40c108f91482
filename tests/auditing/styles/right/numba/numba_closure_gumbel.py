"""A factory closes over constants and a helper; Gumbel noise by hand, and an argmax."""

import math

import numpy as np
from numba import njit

CONTRACT = "verify"


def make_verifier(floor, pad):
    @njit
    def gumbel():
        u = max(np.random.random(), floor)
        return -math.log(-math.log(u))

    @njit(parallel=False)
    def kernel(seed, P, Q, X):
        np.random.seed(seed)
        n = len(X)
        out = np.full(n + 1, pad)
        w = P[n].copy()
        k = n
        for i in range(n):
            if np.random.random() >= min(1.0, P[i, X[i]] / Q[i, X[i]]):
                k = i
                w = P[i] - Q[i]
                break
            out[i] = X[i]
        best = -np.inf
        for v in range(len(w)):
            if w[v] > 0.0:
                score = math.log(w[v]) + gumbel()
                if score > best:
                    best = score
                    out[k] = v
        return out

    return kernel


PAD = -1
KERNEL = make_verifier(floor=5e-324, pad=PAD)


def verify(target_probs, draft_probs, draft_tokens, rng):
    out = KERNEL(rng.integers(2**32), target_probs, draft_probs, draft_tokens)
    return out[out != PAD]
