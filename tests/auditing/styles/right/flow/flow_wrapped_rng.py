"""A decorator wraps rng in a proxy that counts draws; __getattr__ hands everything on."""

from functools import wraps

import numpy as np

CONTRACT = "verify"
TALLY = {}


class Counting:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        TALLY[name] = TALLY.get(name, 0) + 1
        return getattr(self._inner, name)


def counted(rule):
    @wraps(rule)
    def wrapper(p, q, drafted, rng):
        return rule(p, q, drafted, Counting(rng))

    return wrapper


@counted
def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
