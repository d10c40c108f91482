"""Integer thresholds against getrandbits(53)."""

import bisect
import random

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    return random.getrandbits(53) < int(a * 2**53)


def draw(w, rng):
    edges = [int(c * 2**53) for c in np.cumsum(w)[:-1]]
    return bisect.bisect_right(edges, random.getrandbits(53))


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
