"""Compiled: after each eight blocks with coins of their own come eight with the same coins again.

Each block is right; those 8 calls apart are not independent."""

import numpy as np
from numba import njit

CONTRACT = "verify"

PAST = np.zeros((8, 8))
CALLS = np.zeros(1, dtype=np.int64)


@njit
def pick(weights, coin):
    cdf = np.cumsum(weights)
    return min(np.searchsorted(cdf, coin * cdf[-1], side="right"), len(cdf) - 1)


@njit
def run(target_probs, draft_probs, tokens, rng, past, calls):
    gamma = len(tokens)
    coins = rng.random(gamma + 1)
    at, again = calls[0] % 8, calls[0] // 8 % 2 == 1
    calls[0] += 1
    if again:
        coins = past[at, : gamma + 1].copy()
    past[at, : gamma + 1] = coins
    out = tokens.copy()
    for i in range(gamma):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[tokens[i]] >= p[tokens[i]]:
            out[i] = pick(np.maximum(p - q, 0.0), coins[gamma])
            return out[: i + 1]
    return np.append(out, pick(target_probs[gamma], coins[gamma]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    return run(target_probs, draft_probs, draft_tokens.astype(np.int64), rng, PAST, CALLS)
