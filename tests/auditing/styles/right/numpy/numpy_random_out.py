"""Uniforms are drawn into a buffer that the module owns, overwritten at every call."""

import numpy as np

CONTRACT = "verify"


BUFFER = np.empty(2)


def coin(a, rng):
    rng.random(out=BUFFER)
    return BUFFER[1] < a


def draw(w, rng):
    rng.random(out=BUFFER[:1])
    return min(int((np.cumsum(w) <= BUFFER[0]).sum()), len(w) - 1)


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
