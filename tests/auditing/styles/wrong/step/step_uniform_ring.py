"""Uniforms come from a ring of 64 that is drawn once a generation and used again and again.

TV near 1 of a generation of more than 64 draws: it is a function of its first 64.
"""

import numpy as np

CONTRACT = "step"
BEYOND = "length"


class Rule:
    def __init__(self):
        self.reset()

    def reset(self):
        self.ring, self.place = None, 0

    def uniform(self, rng):
        if self.ring is None:
            self.ring = rng.random(64)
        self.place = (self.place + 1) % 64
        return self.ring[self.place]

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
