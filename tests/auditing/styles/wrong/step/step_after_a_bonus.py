"""In the call after a bonus token the first draft is accepted unseen.

True TV about 0.2 by Monte Carlo (V = 3, gamma = 2, p = 0e+00).
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.reset()

    def reset(self):
        self.lucky = False

    def step(self, prefix, target, draft, gamma, rng):
        kept, free, self.lucky = [], self.lucky, False
        for i in range(gamma):
            here = (*prefix, *kept)
            p, q = target(here), draft(here)
            x = draw(q, rng)
            if not (free and i == 0) and rng.random() * q[x] >= p[x]:
                return [*kept, draw(np.maximum(p - q, 0), rng)]
            kept.append(x)
        self.lucky = True
        return [*kept, draw(target((*prefix, *kept)), rng)]
