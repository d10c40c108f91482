"""randbelow of the module secrets against integer thresholds."""

import itertools
import secrets

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return secrets.randbelow(2**60) < int(a * 2**60)


def draw(w, rng):
    u = secrets.randbits(53) / 2**53
    return next((x for x, c in enumerate(itertools.accumulate(w[:-1])) if u < c), len(w) - 1)


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
