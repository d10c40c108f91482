"""One of eight seeds shuffles the order in which the CDF is searched: any order is right."""

import numpy as np

CONTRACT = "verify"


def draw(w, rng):
    order = np.random.default_rng(int(rng.integers(8))).permutation(len(w))
    place = np.searchsorted(np.cumsum(w[order])[:-1], rng.random(), side="right")
    return int(order[place])


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
