"""The draft length grows after a clean call and shrinks after a rejection, over the generation."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.reset()

    def reset(self):
        self.length = 1

    def step(self, prefix, target, draft, gamma, rng):
        kept = []
        for _ in range(min(self.length, gamma)):
            here = (*prefix, *kept)
            p, q = target(here), draft(here)
            x = draw(q, rng)
            if rng.random() * q[x] >= p[x]:
                self.length = max(self.length - 1, 1)
                return [*kept, draw(np.maximum(p - q, 0), rng)]
            kept.append(x)
        self.length += 1
        return [*kept, draw(target((*prefix, *kept)), rng)]
