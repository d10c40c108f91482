"""A Random seeded with a drawn word; choices over cumulative weights of ids kept as strings."""

import random

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    own = random.Random(int(rng.integers(2**63)))
    names = [f"<{x}>" for x in range(len(w))]
    chosen = own.choices(names, cum_weights=np.cumsum(w).tolist(), k=1)[0]
    return int(chosen.strip("<>"))


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
