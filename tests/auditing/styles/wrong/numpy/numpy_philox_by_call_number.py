"""A constant key and the number of the call: every process draws the same sequence.

Within one process no number comes twice, and the law is right.
"""

import itertools

import numpy as np

CONTRACT = "verify"
BEYOND = "a second process"


CALLS = itertools.count()


def coin(a, rng):
    return np.random.Generator(np.random.Philox(key=7, counter=next(CALLS))).random() < a


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
