"""The float uniform and the rows are taken for the fractions that they are."""

from fractions import Fraction

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return Fraction(rng.random()) < Fraction(float(a))


def draw(w, rng):
    rest = Fraction(rng.random()) * sum(map(Fraction, w.tolist()))
    for x, weight in enumerate(map(Fraction, w.tolist())):
        if rest < weight:
            return x
        rest -= weight
    return int(w.argmax())


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
