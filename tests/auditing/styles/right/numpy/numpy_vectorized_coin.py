"""All coins at once by np.where and cumprod; np.vectorize decides each."""

import numpy as np

CONTRACT = "verify"


DECIDE = np.vectorize(lambda u, a: u < a)


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    each = np.arange(n)
    ratio = target_probs[each, draft_tokens] / draft_probs[each, draft_tokens]
    tau = int(np.cumprod(DECIDE(rng.random(n), ratio)).sum())
    w = np.where(
        tau < n,
        target_probs[tau]
        - np.vstack([draft_probs, 0 * ratio[0] + np.zeros(target_probs.shape[1])])[tau],
        target_probs[tau],
    )
    w = np.maximum(w, 0)
    return [*draft_tokens[:tau], int(rng.choice(len(w), p=w / w.sum()))]
