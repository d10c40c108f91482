"""guvectorize picks a token from each row; the row of the first rejection is used."""

import numpy as np
from numba import guvectorize

CONTRACT = "verify"


@guvectorize(["void(float64[:], float64[:], float64, int64[:])"], "(v),(v),()->()", nopython=True)
def pick(p, q, u, token):
    total = 0.0
    for v in range(p.shape[0]):
        if p[v] > q[v]:
            total += p[v] - q[v]
    left = u * total
    token[0] = 0
    for v in range(p.shape[0]):
        if p[v] > q[v]:
            token[0] = v
            left -= p[v] - q[v]
            if left < 0.0:
                break


@guvectorize(
    ["void(float64[:,:], float64[:,:], int64[:], float64[:], int64[:])"],
    "(m,v),(n,v),(n),(n)->()",
    nopython=True,
)
def accepted(p, q, x, u, k):
    k[0] = 0
    for i in range(x.shape[0]):
        if u[i] * q[i, x[i]] >= p[i, x[i]]:
            break
        k[0] += 1


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    padded = np.vstack([draft_probs, np.zeros((1, draft_probs.shape[1]))])
    k = accepted(target_probs, draft_probs, draft_tokens.astype(np.int64), rng.random(n))
    tokens = pick(target_probs, padded, rng.random(n + 1))
    return [*draft_tokens[:k], tokens[k]]
