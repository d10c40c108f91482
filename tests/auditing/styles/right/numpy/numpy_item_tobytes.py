"""Drawn words are read through .item() and .tobytes(), as ports of C code do."""

import sys

import numpy as np

CONTRACT = "verify"


def coin(a, rng):
    word = rng.integers(2**63, size=1, dtype=np.int64)
    return int.from_bytes(word.tobytes(), sys.byteorder) < int(a * 2**63)


def draw(w, rng):
    u = rng.integers(2**53, size=1).item() / 2**53
    return int(np.searchsorted(np.cumsum(w)[:-1], u, side="right"))


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
