"""The bits of eight random bytes, as weights of a binary fraction."""

import numpy as np

CONTRACT = "verify"


HALVES = 0.5 ** np.arange(1, 54)


def coin(a, rng):
    bits = np.unpackbits(rng.integers(256, size=7, dtype=np.uint8))[:53]
    return float(bits @ HALVES) < a


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
