"""A compiled generator yields the tokens; fastmath and float32."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit(fastmath=True)
def pick(w, u):
    target = u * np.sum(w)
    run = np.float32(0)
    chosen = 0
    for v in range(w.size):
        if w[v] > 0:
            chosen = v
            run += w[v]
            if run > target:
                break
    return chosen


@njit(fastmath=True)
def stream(gen, p, q, x):
    zero = np.float32(0)
    for i in range(x.size):
        if np.float32(gen.random()) * q[i, x[i]] >= p[i, x[i]]:
            yield pick(np.maximum(p[i] - q[i], zero), gen.random())
            return
        yield x[i]
    yield pick(p[x.size], gen.random())


@njit
def collect(gen, p, q, x):
    return [t for t in stream(gen, p, q, x)]


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = target_probs.astype(np.float32), draft_probs.astype(np.float32)
    return collect(rng, p, q, draft_tokens.astype(np.int64))
