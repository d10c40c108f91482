"""Only the call after one that emitted gamma + 1 tokens skips its residual's subtraction. TV .05
in such calls, none before."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.full = False

    def reset(self):
        self.full = False

    def step(self, prefix, target, draft, gamma, rng):
        after, self.full, out = self.full, False, []
        for _ in range(gamma):
            p, q = target((*prefix, *out)), draft((*prefix, *out))
            x = int(rng.choice(len(q), p=q))
            if rng.random() * q[x] >= p[x]:
                rest = p if after else np.maximum(p - q, 0)
                return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
            out.append(x)
        self.full = True
        p = target((*prefix, *out))
        return [*out, int(rng.choice(len(p), p=p))]
