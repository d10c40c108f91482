"""Drafts rejected by nobody are kept for the next call where its prefix still fits them: they
were never looked at by a coin, so they are fresh drafts."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.kept = {}

    def reset(self):
        self.kept = {}

    def step(self, prefix, target, draft, gamma, rng):
        x = self.kept.pop(prefix, None)
        p, q = target(prefix), draft(prefix)
        if x is None:
            x = int(rng.choice(len(q), p=q))
        self.kept = {}
        after = draft((*prefix, x))
        self.kept[(*prefix, x)] = int(rng.choice(len(after), p=after))
        if rng.random() * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        y = int(rng.choice(len(p), p=rest / rest.sum()))
        return [y]
