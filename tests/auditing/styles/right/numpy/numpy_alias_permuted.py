"""An alias table whose column is where a permuted row holds its largest entry."""

import numpy as np

CONTRACT = "verify"


def alias_table(w):
    """Vose's two piles: probability of the own token and the other token, by column."""
    scaled, other = (np.asarray(w) * len(w)).tolist(), list(range(len(w)))
    small = [i for i, s in enumerate(scaled) if s < 1]
    large = [i for i, s in enumerate(scaled) if s >= 1]
    while small and large:
        low, high = small.pop(), large.pop()
        other[low] = high
        scaled[high] -= 1 - scaled[low]
        (small if scaled[high] < 1 else large).append(high)
    for i in [*small, *large]:
        scaled[i] = 1.0
    return scaled, other


def draw(w, rng):
    own, other = alias_table(w)
    column = int(rng.permuted(np.arange(len(w))).argmax())
    return column if rng.random() < own[column] else other[column]


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
