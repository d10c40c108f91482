"""Every call's token reuses the uniform of three calls before, half of the time. Each token is
right by itself; TV of four tokens above .1."""

import numpy as np

CONTRACT = "step"


class Rule:
    def __init__(self):
        self.past = []

    def reset(self):
        self.past = []

    def step(self, prefix, target, draft, gamma, rng):
        again = len(self.past) >= 3 and rng.random() < 0.5
        u = self.past[-3] if again else rng.random()
        self.past.append(u)
        cdf = np.cumsum(target(prefix))
        return [int(np.searchsorted(cdf, u * cdf[-1], side="right"))]
