"""In the call after a bonus the first coin is the bonus's own uniform. TV about .05, from there."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.kept = None

    reset = __init__

    def step(self, prefix, target, draft, gamma, rng):
        out = []
        for _ in range(gamma):
            p, q = target((*prefix, *out)), draft((*prefix, *out))
            x = int(rng.choice(len(q), p=q))
            u, self.kept = (rng.random() if self.kept is None else self.kept), None
            if u * q[x] >= p[x]:
                rest = np.maximum(p - q, 0)
                return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
            out.append(x)
        self.kept = rng.random()
        cdf = np.cumsum(target((*prefix, *out)))
        return [*out, int(np.searchsorted(cdf, self.kept * cdf[-1], side="right"))]
