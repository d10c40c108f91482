"""Lossy only where the same token is drafted twice in a row: the second is waved through."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        again = i > 0 and draft_tokens[i - 1] == token and p[token] > 0
        if not again and rng.random() * q[token] >= p[token]:
            rest = np.maximum(p - q, 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
