"""The bonus token is held back and emitted first by the next call of the generation."""

import numpy as np

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.reset()

    def reset(self):
        self.pending = []

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
