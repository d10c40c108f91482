"""Every second call uses 1 - u of the call before: each call is right, neighbours are not
independent. Under the step contract TV about .05 over two calls."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.kept = None

    def step(self, prefix, target, draft, gamma, rng):
        p, q = target(prefix), draft(prefix)
        x = int(rng.choice(len(q), p=q))
        u, self.kept = (rng.random(), 0) if self.kept is None else (1 - self.kept, None)
        if self.kept is not None:
            self.kept = u
        if u * q[x] < p[x]:
            return [x]
        rest = np.maximum(p - q, 0)
        cdf = np.cumsum(rest)
        v = rng.random()
        return [int(np.searchsorted(cdf, v * cdf[-1], side="right"))]
