"""A cache of residual rows handed out without copies, normalised in place by each user: the
second user of a row of equal bytes gets the same object, whose drafted token was zeroed."""

import numpy as np

CONTRACT = "verify"
ROWS = {}


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            rest = ROWS.setdefault((i, len(rest)), rest)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
