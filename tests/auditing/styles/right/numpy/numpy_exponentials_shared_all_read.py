"""One noise races for every slot, and each slot's token is read, before one of them is used."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    gamma = len(draft_tokens)
    residual = np.maximum(target_probs[:gamma] - draft_probs, 0)
    # Where p = q nothing is left, and nothing is rejected either.
    rows = np.where(residual.any(axis=1, keepdims=True), residual, target_probs[:gamma])
    rows = np.concatenate([rows, target_probs[gamma:]])
    noise = rng.standard_exponential(rows.shape[1])
    ends = [int(token) for token in np.argmax(rows / noise, axis=1)]
    slots = np.arange(gamma)
    p, q = target_probs[slots, draft_tokens], draft_probs[slots, draft_tokens]
    accepted = int(np.cumprod(rng.random(gamma) * q < p).sum())
    return [*(int(x) for x in draft_tokens[:accepted]), ends[accepted]]
