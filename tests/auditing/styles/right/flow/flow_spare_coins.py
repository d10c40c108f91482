"""Coins drawn for slots that a rejection left unjudged are kept for the next call, unused."""

import numpy as np

CONTRACT = "verify"
SPARE = []


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    while len(SPARE) < n + 1:
        SPARE.append(rng.random())
    for i, token in enumerate(draft_tokens):
        if SPARE.pop() >= target_probs[i, token] / draft_probs[i, token]:
            law, tau = np.maximum(target_probs[i] - draft_probs[i], 0), i
            break
    else:
        law, tau = target_probs[-1], n
    cdf = np.cumsum(law)
    return [*draft_tokens[:tau], int(np.searchsorted(cdf, SPARE.pop() * cdf[-1], side="right"))]
