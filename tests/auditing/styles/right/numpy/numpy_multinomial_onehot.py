"""Every decision is a multinomial of one trial, read as a one-hot row."""

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return rng.multinomial(1, [a, 1 - a])[0] == 1


def draw(w, rng):
    return int(np.flatnonzero(rng.multinomial(1, w / w.sum()))[0])


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
