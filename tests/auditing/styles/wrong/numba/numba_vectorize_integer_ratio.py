"""The ufunc of the ratio is declared to return an integer: a ratio below 1 becomes 0."""

import numpy as np
from numba import njit, vectorize

CONTRACT = "verify"


@vectorize(["int64(float64, float64)"])
def ratio(p, q):
    return min(p / q, 1.0)


@njit
def sample(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    at = np.arange(n)
    r = ratio(target_probs[at, draft_tokens], draft_probs[at, draft_tokens])
    k = int(np.cumprod(rng.random(n) < r).sum())
    w = target_probs[k] if k == n else np.maximum(target_probs[k] - draft_probs[k], 0.0)
    return [*draft_tokens[:k], sample(w, rng.random())]
