"""Compiled by numba, with numpy's generator: no draw of it can be followed."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def pick(weights, coin):
    cdf = np.cumsum(weights)
    return min(np.searchsorted(cdf, coin * cdf[-1], side="right"), len(cdf) - 1)


@njit
def run(target_probs, draft_probs, tokens, rng):
    gamma = len(tokens)
    coins = rng.random(gamma + 1)
    out = tokens.copy()
    for i in range(gamma):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[tokens[i]] >= p[tokens[i]]:
            out[i] = pick(np.maximum(p - q, 0.0), coins[gamma])
            return out[: i + 1]
    return np.append(out, pick(target_probs[gamma], coins[gamma]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    return run(target_probs, draft_probs, draft_tokens.astype(np.int64), rng)
