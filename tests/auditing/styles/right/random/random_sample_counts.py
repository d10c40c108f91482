"""One ball out of 2^40, coloured by counts, with sample(counts=)."""

import random

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    counts = np.floor(w * 2**40).astype(int)
    counts[w.argmax()] += 2**40 - counts.sum()
    return random.sample(range(len(w)), 1, counts=counts.tolist())[0]


def coin(a, rng):
    return rng.random() < a


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
