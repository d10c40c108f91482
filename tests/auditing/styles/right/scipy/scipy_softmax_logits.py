"""Rows go through log and softmax, and coins compare log-uniforms with differences of logits."""

import numpy as np
from scipy.special import softmax

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    with np.errstate(divide="ignore"):
        lp, lq = np.log(target_probs), np.log(draft_probs)
    for i, x in enumerate(draft_tokens):
        if np.log1p(-rng.random()) >= lp[i, x] - lq[i, x]:
            w = np.maximum(softmax(lp[i]) - softmax(lq[i]), 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    w = softmax(lp[-1])
    return [*draft_tokens, int(rng.choice(len(w), p=w / w.sum()))]
