"""The residual by rejection: draw from p until a coin of probability 1 - q/p falls."""

import random

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    ids = range(target_probs.shape[1])
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        if random.random() * q[token] < p[token]:
            continue
        while True:
            (x,) = random.choices(ids, weights=p)
            if random.random() * p[x] < p[x] - q[x]:
                return [*draft_tokens[:i], x]
    return [*draft_tokens, *random.choices(ids, weights=target_probs[-1].tolist())]
