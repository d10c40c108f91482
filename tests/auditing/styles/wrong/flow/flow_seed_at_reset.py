"""reset seeds the rule's own generator with a constant: every generation is the same. TV > .5."""

import numpy as np

CONTRACT = "step"


class Rule:
    def reset(self):
        self.own = np.random.default_rng(2024)

    def step(self, prefix, target, draft, gamma, rng):
        p, q = target(prefix), draft(prefix)
        x = int(self.own.choice(len(q), p=q))
        if self.own.random() * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        return [int(self.own.choice(len(p), p=rest / rest.sum()))]
