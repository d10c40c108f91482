"""A deep copy looks at the coins ahead of time; the copy is dropped, the law is not touched."""

import copy

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    ahead = copy.deepcopy(rng).random(len(draft_tokens))
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        u = rng.random()
        if u != ahead[i]:
            raise RuntimeError("a copied generator draws something else")
        if u * q[x] >= p[x]:
            rng.random(len(draft_tokens))
            w = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(w), p=w / w.sum()))]
    return [*draft_tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1]))]
