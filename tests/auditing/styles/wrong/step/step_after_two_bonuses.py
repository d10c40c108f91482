"""In the call after two bonus tokens in a row the last token is the draft's.

True TV about .03 of 7 tokens by Monte Carlo (V = 2, gamma = 2, p = 2e-12); none before the sixth.
"""

import numpy as np

CONTRACT = "step"
BEYOND = "prefix"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.reset()

    def reset(self):
        self.streak = 0

    def step(self, prefix, target, draft, gamma, rng):
        kept = []
        for _ in range(gamma):
            here = (*prefix, *kept)
            p, q = target(here), draft(here)
            x = draw(q, rng)
            if rng.random() * q[x] >= p[x]:
                w = q if self.streak >= 2 else np.maximum(p - q, 0)
                self.streak = 0
                return [*kept, draw(w, rng)]
            kept.append(x)
        self.streak += 1
        return [*kept, draw(target((*prefix, *kept)), rng)]
