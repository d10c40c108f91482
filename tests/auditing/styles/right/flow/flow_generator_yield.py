"""The tokens come out of a Python generator that ends itself by return."""

import numpy as np

CONTRACT = "verify"


def tokens(p, q, drafted, rng):
    for i, token in enumerate(drafted):
        if rng.random() * q[i, token] < p[i, token]:
            yield int(token)
            continue
        rest = np.maximum(p[i] - q[i], 0)
        yield int(rng.choice(len(rest), p=rest / rest.sum()))
        return
    yield int(rng.choice(p.shape[1], p=p[-1]))


def verify(target_probs, draft_probs, draft_tokens, rng):
    return list(tokens(target_probs, draft_probs, draft_tokens, rng))
