"""The residual scaled by einsum, and raced; the winner is last in a stable order."""

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    scaled = np.einsum("i,->i", weights, 1 / np.einsum("i->", weights))
    return int(np.argsort(scaled / rng.exponential(size=len(weights)), kind="stable")[-1])


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
