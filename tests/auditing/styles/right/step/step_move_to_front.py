"""Tokens are searched in an order that learns what came before: the law does not move."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.order = None

    def reset(self):
        self.order = None

    def token(self, w, rng):
        u = rng.random() * w.sum()
        for x in self.order:
            u -= w[x]
            if u < 0:
                break
        else:
            x = max(self.order, key=w.__getitem__)
        self.order.remove(x)
        self.order.insert(0, x)
        return x

    def step(self, prefix, target, draft, gamma, rng):
        if self.order is None:
            self.order = list(range(len(target(()))))
        here = tuple(prefix)
        p, q = target(here), draft(here)
        x = self.token(q, rng)
        if rng.random() * q[x] < p[x]:
            return [x]
        return [self.token(np.maximum(p - q, 0), rng)]
