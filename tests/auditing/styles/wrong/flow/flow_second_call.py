"""Only the second call after reset is wrong: its residual is the target. TV about .05."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.calls = 0

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        p, q = target(prefix), draft(prefix)
        x = int(rng.choice(len(q), p=q))
        if rng.random() * q[x] < p[x]:
            return [x]
        rest = p if self.calls == 2 else np.maximum(p - q, 0)
        return [int(rng.choice(len(p), p=rest / rest.sum()))]
