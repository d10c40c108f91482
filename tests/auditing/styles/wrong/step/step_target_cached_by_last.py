"""The target's row is cached by the last token alone; it depends on more.

True TV 0.25 on the instance that the audit shows (V = 2, gamma = 2), exact.
"""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.rows = {}

    def reset(self):
        self.rows.clear()

    def row(self, target, here):
        return self.rows.setdefault(here[-1:], target(here))

    def step(self, prefix, target, draft, gamma, rng):
        kept = []
        for _ in range(gamma):
            here = (*prefix, *kept)
            p, q = self.row(target, here), draft(here)
            x = draw(q, rng)
            if rng.random() * q[x] >= p[x]:
                return [*kept, draw(np.maximum(p - q, 0), rng)]
            kept.append(x)
        return [*kept, draw(self.row(target, (*prefix, *kept)), rng)]
