"""A metaclass registers rules by name; the verifier is looked up in the registry at the call."""

import numpy as np

CONTRACT = "verify"


class Registry(type):
    known = {}

    def __new__(mcs, name, bases, body):
        cls = super().__new__(mcs, name, bases, body)
        mcs.known[name] = cls
        return cls

    def __call__(cls, *args):
        return super().__call__().apply(*args) if args else super().__call__()


class Leviathan(metaclass=Registry):
    def apply(self, p, q, drafted, rng):
        for i, token in enumerate(drafted):
            if rng.random() >= p[i, token] / q[i, token]:
                rest = np.maximum(p[i] - q[i], 0)
                return [*drafted[:i], rng.choice(len(rest), p=rest / rest.sum())]
        return [*drafted, rng.choice(p.shape[1], p=p[-1])]


def verify(target_probs, draft_probs, draft_tokens, rng):
    return Registry.known["Leviathan"](target_probs, draft_probs, draft_tokens, rng)
