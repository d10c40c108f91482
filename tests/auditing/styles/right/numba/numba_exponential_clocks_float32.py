"""float32 rows; the last token is the first of np.random.exponential clocks, found by argmax."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def race(w):
    speed = np.zeros(w.shape[0], dtype=np.float32)
    for v in range(w.shape[0]):
        if w[v] > 0:
            speed[v] = w[v] / np.random.exponential(1.0)
    return np.argmax(speed)


@njit
def kernel(seed, p, q, ids):
    np.random.seed(seed)
    g = ids.shape[0]
    k = 0
    for i in range(g):
        if np.float32(np.random.random()) * q[i, ids[i]] < p[i, ids[i]]:
            k += 1
        else:
            break
    if k == g:
        return k, race(p[g])
    return k, race(np.maximum(p[k] - q[k], np.float32(0)))


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = target_probs.astype(np.float32)
    q = draft_probs.astype(np.float32)
    k, y = kernel(rng.integers(2**32), p, q, draft_tokens.astype(np.int32))
    return np.append(draft_tokens[:k], y)
