"""A coin decided by decimal digits: randrange(10) until a digit differs from the ratio's."""

import random

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    while a > 0:
        a *= 10
        digit = int(a)
        a -= digit
        drawn = random.randrange(10)
        if drawn != digit:
            return drawn < digit
    return False


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
