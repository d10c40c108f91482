"""u + 1.5 * 2**46 - 1.5 * 2**46 snaps the coin to a grid of 1/64. TV up to .008."""

import numpy as np

CONTRACT = "verify"
BIG = 1.5 * 2**46


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if (rng.random() + BIG) - BIG >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            rest = rest if rest.any() else target_probs[i]
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
