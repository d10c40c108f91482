"""default_rng(int(time.time())): calls within one second draw the same numbers. TV above .2 over
a second, though a run of many seconds looks right by the mean."""

import time

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    rng = np.random.default_rng(int(time.time()))
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
