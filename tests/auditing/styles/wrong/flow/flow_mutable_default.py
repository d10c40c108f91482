"""A mutable default argument keeps the uniforms of the first call for ever. TV above .2."""

import numpy as np

CONTRACT = "verify"


def coin(rng, i, kept=[]):
    while len(kept) <= i:
        kept.append(rng.random())
    return kept[i]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if coin(rng, i) >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
