"""Every eighth call of the process accepts its first draft whatever the coin says. TV about .04."""

import numpy as np

CONTRACT = "verify"
CALLS = [0]


def verify(target_probs, draft_probs, draft_tokens, rng):
    CALLS[0] += 1
    for i, token in enumerate(draft_tokens):
        free = i == 0 and CALLS[0] % 8 == 0
        if not free and rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
