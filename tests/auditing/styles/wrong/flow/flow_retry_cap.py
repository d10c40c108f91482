"""The residual by rejection, given up after three tries for the likeliest token. TV about .05."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        for _ in range(3):
            x = rng.choice(len(p), p=p)
            if rng.random() * p[x] < p[x] - q[x]:
                return [*draft_tokens[:i], x]
        return [*draft_tokens[:i], np.argmax(p)]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
