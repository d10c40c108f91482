"""Coins are compared bit by bit with the binary digits of the ratio, until a bit differs."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    while a > 0:
        a *= 2
        digit = a >= 1
        a -= digit
        if rng.integers(2, dtype=bool) != digit:
            return digit
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
