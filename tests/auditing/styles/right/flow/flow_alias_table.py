"""Walker's alias method for the last token: an integer for the column, a uniform for the coin."""

import numpy as np

CONTRACT = "verify"


def alias(law, rng):
    n = len(law)
    scaled = [float(w) * n / float(sum(law)) for w in law]
    small = [i for i, w in enumerate(scaled) if w < 1]
    large = [i for i, w in enumerate(scaled) if w >= 1]
    keep, other = [1.0] * n, list(range(n))
    while small and large:
        s, b = small.pop(), large[-1]
        keep[s], other[s] = scaled[s], b
        scaled[b] -= 1 - scaled[s]
        if scaled[b] < 1:
            small.append(large.pop())
    column = int(rng.integers(n))
    return column if rng.random() < keep[column] else other[column]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            return [*draft_tokens[:i], alias(np.maximum(target_probs[i] - draft_probs[i], 0), rng)]
    return [*draft_tokens, alias(target_probs[-1], rng)]
