"""As flow_lag_three, with eight calls between a uniform and its second use: nothing shows before
the ninth call of a generation."""

import numpy as np

CONTRACT = "step"
BEYOND = "calls: the ninth of a generation"


class Rule:
    def __init__(self):
        self.past = []

    def reset(self):
        self.past = []

    def step(self, prefix, target, draft, gamma, rng):
        u = self.past[-8] if len(self.past) >= 8 else rng.random()
        self.past.append(u)
        cdf = np.cumsum(target(prefix))
        return [int(np.searchsorted(cdf, u * cdf[-1], side="right"))]
