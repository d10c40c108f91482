"""lru_cache on the coin: the same ratio has the same answer in later slots and calls.

True TV 0.5 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

import functools

import numpy as np

CONTRACT = "verify"


GENERATOR = np.random.default_rng()


@functools.lru_cache(maxsize=4)
def uniform_for(ratio):
    return GENERATOR.random()


def coin(a, rng):
    return uniform_for(round(float(a), 6)) < a


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    kept = []
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        ratio = p[x] / q[x]
        if ratio >= 1 or coin(ratio, rng):
            kept.append(int(x))
            continue
        residual = np.maximum(p - q, 0)
        return [*kept, draw(residual / residual.sum(), rng)]
    return [*kept, draw(target_probs[-1], rng)]
