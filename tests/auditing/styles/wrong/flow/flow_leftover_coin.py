"""The first coin of a call is the last uniform of the call before: every call is right by itself,
neighbours depend on each other. TV about .05 of pairs of calls."""

import numpy as np

CONTRACT = "verify"
LEFT = []


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        u = LEFT.pop() if LEFT else rng.random()
        if u >= target_probs[i, token] / draft_probs[i, token]:
            law, tau = np.maximum(target_probs[i] - draft_probs[i], 0), i
            break
    else:
        law, tau = target_probs[-1], len(draft_tokens)
    cdf = np.cumsum(law)
    LEFT.append(rng.random())
    return [*draft_tokens[:tau], int(np.searchsorted(cdf, LEFT[0] * cdf[-1], side="right"))]
