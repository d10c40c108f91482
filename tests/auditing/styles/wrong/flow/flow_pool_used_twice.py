"""A pool of eight uniforms that is read twice before it is filled again. Each call is right;
tokens of calls a few apart share their coins. TV about .05 over two calls."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.pool, self.at = [], 0

    def reset(self):
        self.pool, self.at = [], 0

    def coin(self, rng):
        if self.at % 8 == 0:
            self.pool = rng.random(4).tolist()
        self.at += 1
        return self.pool[self.at % 4]

    def step(self, prefix, target, draft, gamma, rng):
        cdf = np.cumsum(target(prefix))
        return [int(np.searchsorted(cdf, self.coin(rng) * cdf[-1], side="right"))]
