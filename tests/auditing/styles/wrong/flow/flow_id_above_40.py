"""Ids above 40 are never resampled: an old special-token rule. Needs V > 41. TV about .2 there."""

import numpy as np

CONTRACT = "verify"
BEYOND = "V above 41"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            rest[41:] = 0
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
