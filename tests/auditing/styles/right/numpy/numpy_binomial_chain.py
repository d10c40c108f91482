"""The residual is a chain of conditional binomials of one trial."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.binomial(1, a)


def draw(w, rng):
    rest = 1.0
    for x, weight in enumerate(w[:-1]):
        if weight > 0 and rng.binomial(1, min(weight / rest, 1.0)):
            return x
        rest -= weight
        if rest <= 1e-15:
            return x
    return len(w) - 1


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
