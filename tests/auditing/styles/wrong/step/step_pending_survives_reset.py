"""A bonus token that is held back for the next call is not given up at a reset.

True TV 0.158 on the instance that the audit shows (V = 2, gamma = 2), exact.
"""

import numpy as np

CONTRACT = "step"
BEYOND = "reset"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.pending = []

    def reset(self):
        pass

    def step(self, prefix, target, draft, gamma, rng):
        out, self.pending = self.pending, []
        for _ in range(gamma):
            here = (*prefix, *out)
            p, q = target(here), draft(here)
            x = draw(q, rng)
            if rng.random() * q[x] >= p[x]:
                return [*out, draw(np.maximum(p - q, 0), rng)]
            out.append(x)
        self.pending = [draw(target((*prefix, *out)), rng)]
        return out
