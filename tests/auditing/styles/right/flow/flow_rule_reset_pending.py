"""A class with reset whose bonus is held back and emitted first by the next call."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.pending = []

    def reset(self):
        self.pending.clear()

    def step(self, prefix, target, draft, gamma, rng):
        start, self.pending = list(self.pending), []
        out = start.copy()
        for _ in range(gamma):
            here = (*prefix, *out)
            p, q = target(here), draft(here)
            x = int(rng.choice(len(q), p=q))
            if rng.random() * q[x] >= p[x]:
                rest = np.maximum(p - q, 0)
                return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
            out.append(x)
        p = target((*prefix, *out))
        self.pending = [int(rng.choice(len(p), p=p))]
        return out
