"""A @vectorize ufunc accepts all tokens at once, and another makes the residual."""

import numpy as np
from numba import float64, vectorize

CONTRACT = "verify"


@vectorize(["boolean(float64, float64, float64)"], nopython=True)
def accepts(u, p, q):
    if p >= q:
        return True
    return u * q < p


@vectorize([float64(float64, float64)], nopython=True)
def surplus(p, q):
    return p - q if p > q else 0.0


def verify(target_probs, draft_probs, draft_tokens, rng):
    at = np.arange(len(draft_tokens))
    ok = accepts(rng.random(len(at)), target_probs[at, draft_tokens], draft_probs[at, draft_tokens])
    k = len(at) if ok.all() else int(np.argmin(ok))
    drafted = draft_probs[k] if k < len(at) else 0.0
    weights = surplus(target_probs[k], drafted)
    return [*draft_tokens[:k], int(rng.choice(weights.size, p=weights / weights.sum()))]
