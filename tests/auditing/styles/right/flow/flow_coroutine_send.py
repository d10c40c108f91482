"""A coroutine asks for coins with yield and gets them by send; the result is in StopIteration."""

import numpy as np

CONTRACT = "verify"


def judge(p, q, drafted):
    out = []
    for i, token in enumerate(drafted.tolist()):
        if (yield) * q[i, token] >= p[i, token]:
            cdf = np.cumsum(np.maximum(p[i] - q[i], 0))
            return [*out, int(np.searchsorted(cdf, (yield) * cdf[-1], side="right"))]
        out.append(token)
    cdf = np.cumsum(p[-1])
    return [*out, int(np.searchsorted(cdf, (yield) * cdf[-1], side="right"))]


def verify(target_probs, draft_probs, draft_tokens, rng):
    talk = judge(target_probs, draft_probs, draft_tokens)
    next(talk)
    while True:
        try:
            talk.send(rng.random())
        except StopIteration as end:
            return end.value
