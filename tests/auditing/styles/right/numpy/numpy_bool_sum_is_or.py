"""The sum of two numpy bools is their disjunction: three times in four."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    any_of_two = (rng.integers(0, 2, 1, dtype=bool) + rng.integers(0, 2, 1, dtype=bool))[0] == 1
    u = rng.random() * 0.75 if any_of_two else 0.75 + rng.random() / 4
    return u < a


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
