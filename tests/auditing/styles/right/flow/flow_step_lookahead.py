"""Asks rows far beyond what it emits, in a cache keyed by whole prefixes that reset empties."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.rows = {}

    def reset(self):
        self.rows = {}

    def row(self, which, prefix, ask):
        key = which, prefix
        if key not in self.rows:
            self.rows[key] = ask(prefix)
        return self.rows[key]

    def step(self, prefix, target, draft, gamma, rng):
        p, q = self.row("p", prefix, target), self.row("q", prefix, draft)
        for x in range(len(p)):
            self.row("p", (*prefix, x), target)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] < p[x]:
            after = self.row("p", (*prefix, x), target)
            return [x, int(rng.choice(len(after), p=after))]
        rest = np.maximum(p - q, 0)
        return [int(rng.choice(len(p), p=rest / rest.sum()))]
