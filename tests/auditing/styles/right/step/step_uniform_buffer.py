"""Uniforms are drawn sixty-four at a time and used up one by one, each once."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.left = []

    def reset(self):
        pass

    def uniform(self, rng):
        if not self.left:
            self.left = list(rng.random(64))
        return self.left.pop()

    def token(self, w, rng):
        cdf = np.cumsum(w / w.sum())
        return int(np.searchsorted(cdf[:-1], self.uniform(rng), side="right"))

    def step(self, prefix, target, draft, gamma, rng):
        kept = []
        for _ in range(gamma):
            here = (*prefix, *kept)
            p, q = target(here), draft(here)
            x = self.token(q, rng)
            if self.uniform(rng) * q[x] >= p[x]:
                return [*kept, self.token(np.maximum(p - q, 0), rng)]
            kept.append(x)
        return [*kept, self.token(target((*prefix, *kept)), rng)]
