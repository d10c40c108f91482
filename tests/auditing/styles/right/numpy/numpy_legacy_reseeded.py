"""The global legacy generator is seeded with a drawn word at the start of each call."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    np.random.seed(rng.integers(2**32, dtype=np.uint32))
    coins = np.random.random_sample(len(draft_tokens))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coins[i] * q[x] >= p[x]:
            w = np.maximum(p - q, 0)
            break
    else:
        i, w = len(draft_tokens), target_probs[-1]
    return [*draft_tokens[:i], int(np.random.multinomial(1, w / w.sum()).argmax())]
