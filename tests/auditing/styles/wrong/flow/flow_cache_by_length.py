"""Target rows cached by the length of the prefix alone, across tokens. TV above .1 from call 2."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.rows = {}

    def step(self, prefix, target, draft, gamma, rng):
        if len(prefix) not in self.rows:
            self.rows[len(prefix)] = target(prefix)
        if len(prefix) + 1 not in self.rows:
            self.rows[len(prefix) + 1] = target((*prefix, 0))
        p, q = self.rows[len(prefix)], draft(prefix)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        return [int(rng.choice(len(p), p=rest / rest.sum()))]
