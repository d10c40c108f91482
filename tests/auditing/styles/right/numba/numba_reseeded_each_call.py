"""The compiled generator is seeded in each call, with a number from the rng."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def inverse_cdf(weights):
    c = np.cumsum(weights)
    idx = np.searchsorted(c, np.random.uniform(0.0, c[-1]), side="right")
    while idx > 0 and (idx >= len(c) or weights[idx] == 0.0):
        idx -= 1
    return idx


@njit
def _verify(seed, P, Q, X):
    np.random.seed(seed)
    out = [np.int64(0) for _ in range(0)]
    for i in range(len(X)):
        x = X[i]
        if np.random.uniform(0.0, 1.0) * Q[i, x] < P[i, x]:
            out.append(x)
        else:
            out.append(inverse_cdf(np.clip(P[i] - Q[i], 0.0, 1.0)))
            return out
    out.append(inverse_cdf(P[len(X)]))
    return out


def verify(target_probs, draft_probs, draft_tokens, rng):
    seed = int(rng.integers(0, 2**32, dtype=np.uint32))
    return _verify(seed, target_probs, draft_probs, np.asarray(draft_tokens, dtype=np.int64))
