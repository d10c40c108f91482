"""State is a class attribute that reset does not clear: a pending token of the last generation
opens the next one. TV up to .3 after the first generation."""

import numpy as np

CONTRACT = "step"


class Rule:
    pending = []

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        if Rule.pending:
            return [Rule.pending.pop()]
        p, q = target(prefix), draft(prefix)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] < p[x]:
            after = target((*prefix, x))
            Rule.pending.append(int(rng.choice(len(after), p=after)))
            return [x]
        rest = np.maximum(p - q, 0)
        return [int(rng.choice(len(p), p=rest / rest.sum()))]
