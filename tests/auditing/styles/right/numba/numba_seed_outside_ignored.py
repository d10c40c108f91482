"""np.random.seed runs outside the compiled code, which never sees it."""

import numpy as np
from numba import njit

CONTRACT = "verify"


@njit
def accept_prob(p, q):
    return 1.0 if p >= q else p / q


@njit
def sample(w):
    r = np.random.random() * w.sum()
    acc = 0.0
    last = 0
    for j in range(w.size):
        if w[j] > 0.0:
            acc += w[j]
            last = j
            if r < acc:
                return j
    return last


@njit
def spec_decode(target, draft, tokens):
    n = tokens.shape[0]
    result = np.empty(n + 1, np.int64)
    for t in range(n):
        tok = tokens[t]
        if np.random.random() < accept_prob(target[t, tok], draft[t, tok]):
            result[t] = tok
        else:
            result[t] = sample(np.maximum(target[t] - draft[t], 0.0))
            return result[: t + 1]
    result[n] = sample(target[n])
    return result


def verify(target_probs, draft_probs, draft_tokens, rng):
    np.random.seed(1234)
    return spec_decode(target_probs, draft_probs, np.asarray(draft_tokens)).tolist()
