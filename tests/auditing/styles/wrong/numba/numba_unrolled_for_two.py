"""Loops unrolled for two drafts: after two the block ends, and the bonus is of the last row."""

import numpy as np
from numba import njit

CONTRACT = "verify"
BEYOND = "blocks of three"

UNROLL = 2


@njit
def choose(w, u):
    c = np.cumsum(w)
    return min(np.searchsorted(c, u * c[-1], side="right"), c.size - 1)


@njit
def run(P, Q, X, coins):
    for i in range(min(UNROLL, X.size)):
        x = X[i]
        if coins[i] * Q[i, x] >= P[i, x]:
            return i, choose(np.maximum(P[i] - Q[i], 0.0), coins[-1])
    return min(UNROLL, X.size), choose(P[-1], coins[-1])


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = rng.random(draft_tokens.size + 1)
    k, y = run(target_probs, draft_probs, draft_tokens, coins)
    return [*draft_tokens[:k], y]
