"""Raw 64-bit words of the bit generator, without the Generator's methods."""

import numpy as np

CONTRACT = "verify"


def uniform(rng):
    return (rng.bit_generator.random_raw() >> 11) * 2.0**-53


def coin(a, rng):
    return uniform(rng) < a


def draw(w, rng):
    return int(np.searchsorted(np.cumsum(w)[:-1], uniform(rng), side="right"))


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
